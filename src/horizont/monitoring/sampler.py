"""The sampler: a process of its own that watches the processes of a run and their host.

Started by `horizont.monitoring.start_sampler` as ``python -m horizont.measure.sampler --spec FILE``.
It ends on a signal, on the launcher's word, or with its parent, and writes its table each time.
It polls for the end of the parent at every sample, because the kernel's own notice
(``PR_SET_PDEATHSIG``) is bound to the parent's thread and would end the sampler with that. The
notice is good for one thing: as SIGCONT it does nothing to a sampler that runs, and lets one that
was stopped look up and see that it is alone.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from horizont.errors import UserError
from horizont.monitoring.clock import now_s
from horizont.monitoring.control import ControlReader
from horizont.monitoring.deadlines import Deadline, Deadlines
from horizont.monitoring.doorbell import Doorbell
from horizont.monitoring.follower import Follower
from horizont.monitoring.host import HostReader, TrafficReader
from horizont.monitoring.hostrows import host_rows, interface_rows
from horizont.monitoring.process_control import hide_reporting_modules
from horizont.monitoring.processes import ProcessReader, allow_many_descriptors
from horizont.monitoring.reporting import finish
from horizont.monitoring.rows import Head, Spill, process_row
from horizont.monitoring.samplerspec import SamplerSpec, read_spec
from horizont.monitoring.tally import Tally

_LOOK_UP_S = 0.5  # the longest sleep without looking for the parent and for messages


class Sampler:
    """The loop and what it holds.

    Parameters
    ----------
    spec
        The work; its control file must exist.
    """

    def __init__(self, spec: SamplerSpec) -> None:
        self.spec = spec
        self.follower = Follower()
        self.tally = Tally()
        self._bell = Doorbell()
        self._host = HostReader(spec.interfaces)
        self._others: dict[str, TrafficReader] = {}
        self._self = ProcessReader(os.getpid())
        self._control = ControlReader(spec.files.control)
        self._parent = spec.parent_pid or os.getppid()
        self._spill = Spill(spec.files.spill)
        self._newest_s = self._scan_due_s = self._spill_due_s = now_s()
        self._told_to_stop = False

    def run(self) -> str:
        """Sample until something asks to stop; return what it was."""
        _let_garbage_wait()
        deadlines = Deadlines(now_s(), self.spec.interval_s, self.spec.jitter, seed=os.getpid())
        while True:
            deadline = deadlines.next(now_s())
            if reason := self._sleep_until(deadline.due_s):
                return reason
            if self._clock_went_back():
                deadlines.go_on_from(now_s())
                self._after_a_step_back(now_s())
            else:
                self._sample(deadline)

    def close(self) -> None:
        """Bring all rows to the stream."""
        self._spill.close()

    def _sleep_until(self, due_s: float) -> str | None:
        """Sleep in pieces; return the reason to stop, if there is one."""
        while True:
            self._bell.wait_until(min(due_s, now_s() + _LOOK_UP_S))
            if reason := self._reason_to_stop():
                return reason
            if now_s() >= due_s or self._clock_went_back():
                return None

    def _clock_went_back(self) -> bool:
        """Whether it is earlier than it was: no monotonic clock does, but a moved machine's."""
        return now_s() < self._newest_s

    def _after_a_step_back(self, time_s: float) -> None:
        self.tally.clock_set_back += 1
        self._newest_s = self._scan_due_s = self._spill_due_s = time_s

    def _reason_to_stop(self) -> str | None:
        for message in self._control.read():
            self._told_to_stop |= "stop" in message
            if "root" in message:
                self.follower.add_root(message["root"], message["name"])
                self._scan_due_s = now_s()
            if "host" in message:
                self._others[message["host"]] = TrafficReader(Path(message["counters"]))
        if self._told_to_stop:
            return "told to stop"
        if os.getppid() != self._parent:
            return "the launcher ended"
        return self._bell.rung

    def _sample(self, deadline: Deadline) -> None:
        time_s = self._newest_s = now_s()
        late_s = time_s - deadline.due_s
        self.tally.count(deadline.missed, late_s)
        head = Head(deadline.tick, time_s, late_s, self.spec.host)
        scanned = time_s >= self._scan_due_s
        processes = self._scan(time_s) if scanned else None
        add = self._spill.rows.append
        for pid, name, reading in self.follower.read(time_s, disk=scanned):
            add(process_row(head, "process", name, pid, reading))
        self._spill.rows.extend(host_rows(head, self._host, deadline.missed, processes))
        for host, reader in self._others.items():
            self._spill.rows.extend(interface_rows(head._replace(host=host), reader.read()))
        own = self._self.read(disk=scanned)
        if own:
            add(process_row(head, "sampler", "sampler", os.getpid(), own))
        if time_s >= self._spill_due_s:
            self._spill.flush()
            gc.collect()
            self._spill_due_s = time_s + self.spec.spill_s

    def _scan(self, time_s: float) -> int:
        self._scan_due_s = time_s + self.spec.scan_s
        return self.follower.scan()


def _let_garbage_wait() -> None:
    """Collect garbage when rows are spilled only, and never look at what was imported.

    Left alone, the collector walks through all modules every few hundred rows, which costs as much
    as a hundred samples.
    """
    gc.disable()
    gc.collect()
    gc.freeze()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sampler; return 0 when its table is on disk."""
    parser = argparse.ArgumentParser(description="Watch the processes of a run.")
    parser.add_argument("--spec", type=Path, required=True, help="a file written by the launcher")
    try:
        spec = read_spec(parser.parse_args(arguments).spec)
        hide_reporting_modules()
        allow_many_descriptors()
        sampler = Sampler(spec)
        ended = "an error"
        try:
            ended = sampler.run()
        finally:
            sampler.close()
            finish(spec.files, ended, {**sampler.tally.report(), **sampler.follower.report()})
    except (UserError, OSError) as error:
        print(f"sampler: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
