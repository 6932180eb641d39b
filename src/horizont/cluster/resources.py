"""The sampler around a run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from horizont.cluster.hosts import Hosts
from horizont.cluster.plan import Plan
from horizont.measure import SamplerHandle, background_of, start_sampler, watch_background
from horizont.measure.interrupts import interrupts_later
from horizont.records import RecordWriter, read_table

#: How long to wait for the first sample, in seconds.
READY_S = 20.0


class Resources:
    """What the sampler and the look at the background found out, after the run.

    Attributes
    ----------
    background_cpu
        Share of all processors that other programs took; None if it was not watched.
    disturbed
        Whether that is enough to mark the run.
    """

    def __init__(self, sampler: SamplerHandle | None) -> None:
        self._sampler = sampler
        self.background_cpu: float | None = None
        self.disturbed = False

    @property
    def add_root(self) -> Callable[[int, str], None]:
        """How to name a process that is to be followed."""
        return self._sampler.add_root if self._sampler else lambda pid, name: None

    def conclude(self, record: RecordWriter) -> None:
        """Stop the sampler and look at what others did meanwhile."""
        if self._sampler is None:
            return
        outcome = self._sampler.stop()
        record.event("sampler_ended", reason=outcome.reason)
        if outcome.path is None:
            return
        samples = read_table(outcome.path)
        if samples.num_rows:
            load = background_of(samples, os.cpu_count() or 1)
            self.background_cpu = load.share
            self.disturbed = load.disturbed


@contextlib.contextmanager
def sampling(plan: Plan, hosts: Hosts, record: RecordWriter) -> Iterator[Resources]:
    """Sample the resources of what happens in the block, if the run asks for it."""
    if plan.run.sampler_hz == 0:
        resources = Resources(None)
        load = watch_background()
        resources.background_cpu, resources.disturbed = load.share, load.disturbed
        yield resources
        return
    with contextlib.ExitStack() as stack:
        with interrupts_later():
            sampler = start_sampler(record.folder, 1.0 / plan.run.sampler_hz, ready_s=0)
            stack.callback(sampler.stop)
        sampler.wait_ready(READY_S)
        for name, counters in hosts.counters().items():
            sampler.add_host(name, counters)
        for name, pid in hosts.carriers().items():
            sampler.add_root(pid, name)
        resources = Resources(sampler)
        yield resources
        resources.conclude(record)
