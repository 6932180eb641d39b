"""Sampler: a separate process that polls CPU, memory, thread, disk and network counters.

Started by `horizont.monitoring.client.start_sampler`, never imported by it. Commands come in lines
of JSON on standard input; its end means that the launcher has ended, so that the sampler never
outlives it.
"""

from __future__ import annotations

import gc
import json
import math
import os
import random
import select
import signal
import sys
import time
from pathlib import Path
from statistics import median
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO

import psutil

from horizont.errors import UserError
from horizont.monitoring.counters import (
    error_name,
    host_usage,
    process_usage,
    read_network_counters,
)
from horizont.monitoring.process_control import hide_reporting_modules
from horizont.monitoring.process_tree import ProcessTree
from horizont.monitoring.samples import (
    DEVICE_SCHEMA,
    SCHEMA,
    Sample,
    SampleFiles,
    SampleStream,
    finalize,
)

if TYPE_CHECKING:  # only a run on a GPU needs NVML
    from horizont.monitoring.gpu import GpuCounters

#: Name of this machine in the samples.
HOST = "localhost"

#: Largest random displacement of a sample as a fraction of the interval.
JITTER = 0.05

_MAX_WAIT_S = 0.5  # longest wait without checking parent, signals and clock
_PIPE_BYTES = 1 << 20  # no pipe holds more, so that what is read at once ends with a whole line
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

Head = tuple[int, float, float, str]  # sample, time_s, late_s, host: shared by rows of a deadline


class Schedule:
    """Absolute deadlines ``start_s + tick * interval_s``, each displaced by a random jitter.

    A late sample does not delay the next one. Jitter keeps the samples from aligning with
    periodic work; it belongs to its deadline alone and does not accumulate. It is a fraction of the
    interval below one half.
    """

    def __init__(self, start_s: float, interval_s: float, jitter: float = 0.0, seed: int = 0):
        self._start_s, self._interval_s, self._jitter = start_s, interval_s, jitter
        self._random = random.Random(seed)
        self._tick = -1

    def next(self, now_s: float) -> tuple[int, float, int]:
        """Return the next tick, its deadline in seconds, and how many ticks were skipped.

        A tick is skipped once the following one is due: less than an interval is recorded as
        lateness, more as missed ticks.
        """
        expected = self._tick + 1
        self._tick = max(expected, math.floor((now_s - self._start_s) / self._interval_s))
        displacement = self._jitter * self._random.uniform(-1.0, 1.0)
        due_s = self._start_s + (self._tick + displacement) * self._interval_s
        return self._tick, due_s, self._tick - expected

    def restart(self, now_s: float) -> None:
        """Make the latest tick due again now, after the clock was set back."""
        self._start_s = now_s - self._tick * self._interval_s
        self._tick -= 1


class Sampler:
    """The sampling loop; executes the commands of `horizont.monitoring.client.SamplerClient`."""

    def __init__(
        self,
        stream: SampleStream,
        interval_s: float,
        scan_interval_s: float,
        flush_interval_s: float,
    ) -> None:
        self.stream = stream
        self._interval_s = interval_s
        self._scan_interval_s, self._flush_interval_s = scan_interval_s, flush_interval_s
        self._tree = ProcessTree(os.getpid())
        self._self = psutil.Process()
        self._parent = os.getppid()
        self._namespaces: dict[str, BinaryIO] = {}
        self._gpus: GpuCounters | None = None
        self._device_problem = ""
        self._late_s: list[float] = []
        self._missed = self._clock_set_back = 0
        self._latest_s = self._scan_due_s = self._flush_due_s = time.monotonic()
        self._signal = ""
        for number in _STOP_SIGNALS:
            signal.signal(number, self._record_signal)

    def _record_signal(self, number: int, frame: FrameType | None) -> None:
        """Interrupt no write: the next check ends the loop."""
        del frame
        self._signal = signal.Signals(number).name

    def run(self) -> str:
        """Sample until stopped; return the reason."""
        schedule = Schedule(time.monotonic(), self._interval_s, JITTER, seed=os.getpid())
        while True:
            tick, due_s, missed = schedule.next(time.monotonic())
            if reason := self._wait_until(due_s):
                return reason
            now_s = time.monotonic()
            if now_s < self._latest_s:  # no monotonic clock goes back, but a migrated machine's
                self._clock_set_back += 1
                self._latest_s = self._scan_due_s = self._flush_due_s = now_s
                schedule.restart(now_s)
                continue
            self._latest_s = now_s
            self._late_s.append(now_s - due_s)
            self._missed += missed
            complete = len(self.stream.rows)
            try:
                self._sample((tick, now_s, now_s - due_s, HOST), missed)
            except (psutil.Error, OSError) as error:  # out of descriptors, for example
                del self.stream.rows[complete:]
                self._tree.problems[error_name(error)] += 1
            if now_s >= self._flush_due_s:
                self.stream.flush()
                gc.collect()
                self._flush_due_s = now_s + self._flush_interval_s

    def report(self) -> dict[str, Any]:
        """Return lateness, cost and processes as plain values; seconds in fields with ``_s``."""
        return {
            "samples": len(self._late_s),
            "missed": self._missed,
            "clock_set_back": self._clock_set_back,
            "late_median_s": median(self._late_s) if self._late_s else None,
            "late_max_s": max(self._late_s, default=None),
            "sampler_cpu_s": time.process_time(),
            **self._tree.report(),
            **({"device_problem": self._device_problem} if self._device_problem else {}),
        }

    def _wait_until(self, due_s: float) -> str:
        """Wait for the deadline while executing commands; return the reason to stop, if any."""
        while True:
            left_s = min(max(0.0, due_s - time.monotonic()), _MAX_WAIT_S)
            ready, _, _ = select.select([sys.stdin], [], [], left_s)
            if self._signal:
                return self._signal
            if ready and (reason := self._execute_commands()):
                return reason
            # The pipe stays open if another child of the launcher has inherited it.
            if os.getppid() != self._parent:
                return "the launcher ended"
            if not self._latest_s <= time.monotonic() < due_s:
                return ""

    def _execute_commands(self) -> str:
        """Execute what the launcher has written; return the reason to stop, if there is one."""
        content = os.read(sys.stdin.fileno(), _PIPE_BYTES)
        if not content:
            return "the launcher ended"
        for line in content.splitlines():
            match json.loads(line):
                case {"command": "add_root", "pid": pid, "name": name}:
                    self._tree.add_root(pid, name)
                    self._scan_due_s = self._latest_s
                case {"command": "add_host", "name": name, "counters": path}:
                    try:
                        # Never closed: it can be read even after its process has ended.
                        self._namespaces[name] = open(path, "rb", buffering=0)  # noqa: SIM115
                    except OSError as error:
                        self._tree.problems[error_name(error)] += 1
                case {"command": "add_device", "name": name, "device": device}:
                    self._add_device(name, device)
                case {"command": "stop"}:
                    return "stopped"
        return ""

    def _add_device(self, name: str, device: str) -> None:
        """Sample a GPU; where that is impossible, the report says why."""
        from horizont.monitoring.gpu import GpuCounters, GpuUnavailableError

        try:
            self._gpus = self._gpus or GpuCounters()
            self._gpus.add(name, device)
        except GpuUnavailableError as error:
            self._device_problem = str(error)

    def _sample(self, head: Head, missed: int) -> None:
        time_s = head[1]
        scan = time_s >= self._scan_due_s
        if scan:
            self._scan_due_s = time_s + self._scan_interval_s
        processes = self._tree.scan() if scan else None
        add = self.stream.rows.append
        for pid, name, usage in self._tree.usage(time_s, details=scan):
            add(Sample(*head, "process", name, pid, **usage._asdict()))
        own = process_usage(self._self, details=scan)
        add(Sample(*head, "sampler", "sampler", self._self.pid, **own._asdict()))
        self._sample_host(head, missed, processes)
        for name, gpu in self._gpus.usage().items() if self._gpus else ():
            add(Sample(*head, "device", name, **gpu._asdict()))
        for host, counters in self._namespaces.items():
            try:
                traffic = read_network_counters(counters)
            except OSError as error:  # one host without counters costs no other sample
                self._tree.problems[error_name(error)] += 1
                continue
            for name, sent, received in traffic:
                self._add_interface((*head[:3], host), name, sent, received)

    def _sample_host(self, head: Head, missed: int, processes: int | None) -> None:
        """Add the rows of the host; the disks, as expensive as all else, at each scan only."""
        traffic = psutil.net_io_counters(pernic=True, nowrap=False)
        for name, each in traffic.items():
            self._add_interface(head, name, each.bytes_sent, each.bytes_recv)
        row = Sample(
            *head,
            "host",
            HOST,
            **host_usage(disk=processes is not None),
            sent_bytes=sum(each.bytes_sent for each in traffic.values()),
            received_bytes=sum(each.bytes_recv for each in traffic.values()),
            processes=processes,
            missed=missed,
        )
        self.stream.rows.append(row)

    def _add_interface(self, head: Head, name: str, sent: int, received: int) -> None:
        row = Sample(*head, "interface", name, sent_bytes=sent, received_bytes=received)
        self.stream.rows.append(row)


def main(folder: str, device: str, *intervals_s: str) -> int:
    """Run a sampler; return 0 once its table is written."""
    hide_reporting_modules()
    # Garbage is collected at each flush only, and imported modules never: left alone, the
    # collector visits them all every few hundred rows, which costs as much as a hundred samples.
    gc.disable()
    gc.collect()
    gc.freeze()
    files = SampleFiles(Path(folder))
    try:
        stream = SampleStream(files.stream, SCHEMA if device == "cpu" else DEVICE_SCHEMA)
        sampler = Sampler(stream, *map(float, intervals_s))
        ended = "an error"
        try:
            ended = sampler.run()
        finally:
            sampler.stream.close()
            finalize(files, ended, sampler.report())
    except (UserError, OSError) as error:
        print(f"sampler: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
