/* The wall clock of a host, which another process can set: a library to be preloaded.
 *
 * HORIZONT_CHAOS_CLOCKS is a folder with a file for each host, named by HORIZONT_CHAOS_HOST: the
 * seconds, as a double, by which the wall clock of the host is ahead of the machine's. Only reading
 * the clock is replaced. The monotonic clock is the machine's, and so are timeouts: a wait until a
 * time of the wall clock ends early or late by the step, as if the clock had been set during it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile double *ahead_s;

__attribute__((constructor)) static void open_clock(void)
{
    const char *folder = getenv("HORIZONT_CHAOS_CLOCKS"), *host = getenv("HORIZONT_CHAOS_HOST");
    char path[4096];
    if (folder == NULL)
        return;
    snprintf(path, sizeof path, "%s/%s", folder, host ? host : "machine");
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0)
        return;
    if (ftruncate(file, sizeof(double)) == 0) {
        void *content = mmap(NULL, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
        if (content != MAP_FAILED)
            ahead_s = content;
    }
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && ahead_s != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        double ahead = *ahead_s, seconds = floor(ahead);
        now->tv_sec += (time_t)seconds;
        now->tv_nsec += (long)((ahead - seconds) * 1e9);
        if (now->tv_nsec >= 1000000000L) {
            now->tv_sec += 1;
            now->tv_nsec -= 1000000000L;
        }
    }
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    int status = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return status;
}

time_t time(time_t *now)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now != NULL)
        *now = precise.tv_sec;
    return precise.tv_sec;
}
