"""Sampler: a separate process that polls CPU, memory, thread, disk and network counters.

Started by `horizont.monitoring.client.start_sampler`, never imported by it. The first line on
standard input is the configuration, further lines are commands, all in JSON. End of file means
that the launcher has ended, so that the sampler never outlives it.
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
from collections.abc import Sequence
from statistics import median
from types import FrameType
from typing import Any, BinaryIO

import psutil

from horizont.errors import UserError
from horizont.monitoring.client import SamplerConfig
from horizont.monitoring.counters import (
    error_name,
    host_usage,
    process_usage,
    read_network_counters,
)
from horizont.monitoring.process_control import hide_reporting_modules
from horizont.monitoring.process_tree import ProcessTree
from horizont.monitoring.samples import Sample, SampleStream, finalize

_MAX_WAIT_S = 0.5  # longest wait without checking the parent and the clock
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

Head = tuple[int, float, float, str]  # sample, time_s, late_s, host: shared by rows of a deadline


class Schedule:
    """Absolute deadlines ``start_s + tick * interval_s``, each displaced by a random jitter.

    A late sample does not delay the next one. Jitter keeps the samples from aligning with
    periodic work; it belongs to its deadline alone and does not accumulate.

    Parameters
    ----------
    start_s
        Time of tick 0, in seconds.
    interval_s
        Time between two ticks, in seconds.
    jitter
        Largest displacement in either direction as a fraction of the interval, below one half.
    seed
        Seed of the displacements.
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


class CommandReader:
    """JSON lines from a pipe, read without blocking beyond what has arrived."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.ended = False
        self._incomplete = b""

    def read(self) -> list[dict[str, Any]]:
        """Read what has arrived, at least a byte; an incomplete line waits for its rest."""
        content = os.read(self.descriptor, 1 << 16)
        self.ended = not content
        *lines, self._incomplete = (self._incomplete + content).split(b"\n")
        return [json.loads(line) for line in lines if line]


class Sampler:
    """The sampling loop; executes the launcher's commands ``add_root``, ``add_host``, ``stop``."""

    def __init__(self, config: SamplerConfig, commands: CommandReader) -> None:
        self.stream = SampleStream(config.files.stream)
        self._config, self._commands = config, commands
        self._tree = ProcessTree(os.getpid())
        self._self = psutil.Process()
        self._parent = os.getppid()
        self._namespaces: dict[str, BinaryIO] = {}
        self._late_s: list[float] = []
        self._missed = self._clock_set_back = 0
        self._latest_s = self._scan_due_s = self._flush_due_s = time.monotonic()
        self._signal = ""
        self._wakeup = self._handle_signals()

    def _handle_signals(self) -> int:
        """Record signals and make them readable, so that they interrupt a wait but no write."""

        def record(number: int, frame: FrameType | None) -> None:
            del frame
            self._signal = signal.Signals(number).name

        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in _STOP_SIGNALS:
            signal.signal(number, record)
        return reader

    def run(self) -> str:
        """Sample until stopped; return the reason."""
        config = self._config
        schedule = Schedule(time.monotonic(), config.interval_s, config.jitter, seed=os.getpid())
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
                self._sample((tick, now_s, now_s - due_s, config.host), missed)
            except (psutil.Error, OSError) as error:  # out of descriptors, for example
                del self.stream.rows[complete:]
                self._tree.problems[error_name(error)] += 1
            if now_s >= self._flush_due_s:
                self.stream.flush()
                gc.collect()
                self._flush_due_s = now_s + config.flush_interval_s

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
        }

    def _wait_until(self, due_s: float) -> str:
        """Wait for the deadline while executing commands; return the reason to stop, if any."""
        while True:
            left_s = min(max(0.0, due_s - time.monotonic()), _MAX_WAIT_S)
            ready, _, _ = select.select([self._commands.descriptor, self._wakeup], [], [], left_s)
            if self._signal:
                return self._signal
            if self._commands.descriptor in ready:
                if reason := self.execute(self._commands.read()):
                    return reason
                if self._commands.ended:
                    return "the launcher ended"
            # The pipe stays open if another child of the launcher has inherited it.
            if os.getppid() != self._parent:
                return "the launcher ended"
            if not self._latest_s <= time.monotonic() < due_s:
                return ""

    def execute(self, commands: Sequence[dict[str, Any]]) -> str:
        """Execute commands of the launcher; return the reason to stop, if one says so."""
        for command in commands:
            match command:
                case {"command": "add_root", "pid": pid, "name": name}:
                    self._tree.add_root(pid, name)
                    self._scan_due_s = self._latest_s
                case {"command": "add_host", "name": name, "counters": path}:
                    try:
                        # Never closed: it can be read even after its process has ended.
                        self._namespaces[name] = open(path, "rb", buffering=0)  # noqa: SIM115
                    except OSError as error:
                        self._tree.problems[error_name(error)] += 1
                case {"command": "stop"}:
                    return "stopped"
        return ""

    def _sample(self, head: Head, missed: int) -> None:
        time_s = head[1]
        scan = time_s >= self._scan_due_s
        if scan:
            self._scan_due_s = time_s + self._config.scan_interval_s
        processes = self._tree.scan() if scan else None
        add = self.stream.rows.append
        for pid, name, usage in self._tree.usage(time_s, details=scan):
            add(Sample(*head, "process", name, pid, **usage._asdict()))
        own = process_usage(self._self, details=scan)
        add(Sample(*head, "sampler", "sampler", self._self.pid, **own._asdict()))
        self._sample_host(head, missed, processes)
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
        counters = psutil.net_io_counters(pernic=True, nowrap=False)
        interfaces = self._config.interfaces
        chosen = counters if interfaces is None else interfaces
        traffic = {name: counters[name] for name in chosen if name in counters}
        for name, each in traffic.items():
            self._add_interface(head, name, each.bytes_sent, each.bytes_recv)
        row = Sample(
            *head,
            "host",
            self._config.host,
            **host_usage(disk=processes is not None),
            sent_bytes=sum(each.bytes_sent for each in traffic.values()) if traffic else None,
            received_bytes=sum(each.bytes_recv for each in traffic.values()) if traffic else None,
            processes=processes,
            missed=missed,
        )
        self.stream.rows.append(row)

    def _add_interface(self, head: Head, name: str, sent: int, received: int) -> None:
        row = Sample(*head, "interface", name, sent_bytes=sent, received_bytes=received)
        self.stream.rows.append(row)


def main() -> int:
    """Run a sampler; return 0 once its table is written."""
    commands = CommandReader(sys.stdin.fileno())
    received: list[dict[str, Any]] = []
    while not received:
        received = commands.read()
        if commands.ended:
            return 2
    hide_reporting_modules()
    # Garbage is collected at each flush only, and imported modules never: left alone, the
    # collector visits them all every few hundred rows, which costs as much as a hundred samples.
    gc.disable()
    gc.collect()
    gc.freeze()
    try:
        config = SamplerConfig(**received[0])
        sampler = Sampler(config, commands)
        ended = "an error"
        try:
            ended = sampler.execute(received[1:]) or sampler.run()
        finally:
            sampler.stream.close()
            finalize(config.files, ended, sampler.report())
    except (UserError, OSError) as error:
        print(f"sampler: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
