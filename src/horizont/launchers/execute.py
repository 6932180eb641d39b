"""One run from plan to record: start, sample, supervise, collect."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from horizont.config.run import Run
from horizont.errors import RunFailed
from horizont.launchers.base import (
    Cluster,
    ProcessHandle,
    Sampler,
    check_run,
    get_launcher,
    open_cluster,
)
from horizont.launchers.collect import summarise
from horizont.launchers.fault_injection import FaultInjection, raise_if_incomplete
from horizont.launchers.plan import ProcessPlan, RunPlan, plan_run, role_assignment
from horizont.launchers.process import terminating
from horizont.launchers.supervisor import supervise
from horizont.launchers.update_history import collect_updates
from horizont.monitoring.background import BackgroundMeter
from horizont.monitoring.client import SamplerClient
from horizont.monitoring.process_control import defer_interrupts
from horizont.records.record import Record, RecordWriter, read_record
from horizont.records.results import FaultReport, RunResult

#: Seconds to wait for the first sample.
SAMPLER_READY_S = 20.0

#: With one of these, times of different processes can be compared.
COMPARABLE_CLOCKS = frozenset({"shared_clock", "aligned_clocks"})

#: Called with the steps done and the steps planned, of the slowest worker.
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class RunPaths:
    """Where a run reads and writes, and the facts on where it happens.

    Attributes
    ----------
    store
        The folder of the complete records.
    data_folder, files_folder
        The prepared data set; in its official format, too, if the input pipeline reads files.
    environment
        Facts of machine and software, written to the record.
    """

    store: Path
    data_folder: Path
    environment: dict[str, Any]
    files_folder: Path | None = None


@contextlib.contextmanager
def _sampling(run: Run, cluster: Cluster, record: RecordWriter) -> Iterator[Sampler | None]:
    """Sample the machine and the hosts for the context, if the run is to be sampled.

    Unless the run is interrupted, it is logged why the sampler ended.
    """
    if run.sampler_hz == 0:
        yield None
        return
    with contextlib.ExitStack() as stack:
        with defer_interrupts():
            interval_s, device = 1.0 / run.sampler_hz, run.topology.device
            sampler = cluster.start_sampler(record.folder, interval_s, device)
            stack.callback(sampler.stop)
        sampler.wait_ready(SAMPLER_READY_S)
        if isinstance(sampler, SamplerClient):
            cluster.attach_sampler(sampler)
        yield sampler
        sampler_result = sampler.stop()
        record.log_event("sampler_ended", reason=sampler_result.reason)
        if problem := sampler_result.report.get("device_problem"):
            record.log_event("device_not_sampled", reason=problem)


def execute(run: Run, key: str, paths: RunPaths, on_progress: OnProgress) -> Record:
    """Run all processes of a run and return its record.

    The record of a failed run has the reason. An interrupt leaves neither processes nor a record. A
    port that is in use, hosts that cannot be created, or a store that is not writable, is a
    `UserError`.
    """
    check_run(run)
    record = None
    try:
        with defer_interrupts():
            record = RecordWriter(paths.store, key)
        with open_cluster(run.topology, record.folder) as cluster:
            record.start(run, _environment(run, paths, cluster))
            try:
                endpoints = cluster.endpoints([host for _, _, host in role_assignment(run)])
                files = paths.files_folder and paths.files_folder.resolve()
                plan = plan_run(run, record.folder, paths.data_folder.resolve(), endpoints, files)
                record.log_event("planned", processes=[process.name for process in plan.processes])
                result = _Execution(plan, cluster, record, on_progress).run()
            except RunFailed as failure:  # before its processes were started
                record.log_event("failed", reason=str(failure))
                result = RunResult(status="failed", reason=str(failure))
        shutil.rmtree(record.folder / "processes", ignore_errors=True)
        return read_record(record.finish(result))
    except BaseException:
        with defer_interrupts():
            if record is not None:
                record.discard()
        raise


def _environment(run: Run, paths: RunPaths, cluster: Cluster) -> dict[str, Any]:
    """Return the facts for the record; those of hosts that are other machines by their names."""
    launcher = get_launcher(run.topology.launcher)
    hosts, is_exclusive = cluster.facts(), cluster.has_exclusive_hosts()
    return {
        **paths.environment,
        "capabilities": sorted(launcher.capabilities | cluster.further_capabilities()),
        **({"hosts": hosts} if hosts else {}),
        **({} if is_exclusive is None else {"exclusive_hosts": is_exclusive}),
    }


@dataclass
class _Execution:
    """A planned run on its hosts: the processes started so far, and the sampler."""

    plan: RunPlan
    cluster: Cluster
    record: RecordWriter
    on_progress: OnProgress
    handles: list[ProcessHandle] = field(default_factory=list)
    sampler: Sampler | None = None

    def run(self) -> RunResult:
        """Run the planned processes, merge their files and summarise them."""
        run, record = self.plan.run, self.record
        reason = ""
        meter = BackgroundMeter()
        with _sampling(run, self.cluster, record) as self.sampler:
            start_s = time.monotonic()
            try:
                try:
                    report = self._train_to_end()
                finally:
                    wall_s = time.monotonic() - start_s
                if report is not None:
                    record.write_fault_report(report)
                    raise_if_incomplete(run, report)
            except RunFailed as failure:
                reason = str(failure)
        own_load = meter.load(with_quotas=run.topology.cpus_per_host is not None)
        background = self.cluster.background_load() or own_load
        host_events = self.cluster.host_events()
        for event in host_events:
            record.log_event(**event)
        folders = [handle.plan.folder for handle in self.handles]
        history = collect_updates(record, folders) if run.record_updates != "none" else None
        if history is not None and run.fault is None:
            reason = reason or history.problem
        record.log_event("failed" if reason else "ended", reason=reason)
        one_clock = bool(COMPARABLE_CLOCKS & get_launcher(run.topology.launcher).capabilities)
        result = summarise(record, run.system, folders, wall_s, shared_clock=one_clock)
        if reason and result.clock_step_s:
            reason += f"; a wall clock was set by {result.clock_step_s:.1f} s during the run"
        changes: dict[str, Any] = {"status": "failed", "reason": reason} if reason else {}
        has_drifted = any(event["event"] == "clock_drift" for event in host_events)
        disturbed = background.disturbed or has_drifted or result.clock_step_s > 0
        changes |= {"background_cpu": background.cpu_fraction, "disturbed": disturbed}
        changes["update_history"] = history
        return result.model_copy(update=changes)

    def _train_to_end(self) -> FaultReport | None:
        """Start and supervise all processes; none is left running."""
        run, handles = self.plan.run, self.handles
        try:
            with terminating(handles):
                for process in self.plan.processes:
                    self._start(process)
                if run.fault is not None:
                    fault = FaultInjection(
                        self.plan, handles, self._start, self.record, self.cluster
                    )
                    return fault.run(self._on_tick)
                supervise(handles, run.timeout_s, self._on_tick, run.stall_timeout_s)
                return None
        finally:
            for handle in handles:
                handle.fetch_outputs()

    def _start(self, process: ProcessPlan) -> ProcessHandle:
        process.folder.mkdir(parents=True)
        self.record.log_event("spawned", process=process.name)
        with defer_interrupts():
            log = self.record.folder / "logs" / f"{process.name}.log"
            handle = self.cluster.start(process, log)
            self.handles.append(handle)
        if isinstance(self.sampler, SamplerClient):
            handle.attach_sampler(self.sampler)
        self.record.log_event("started", process=process.name, **handle.details)
        return handle

    def _on_tick(self) -> None:
        """Send the progress of the slowest process, and start the next stage of the run with it.

        With its first step, start-up is over, and the CPU quotas are applied. Start-up is not
        limited: importing a framework on a fraction of a CPU takes minutes and is not part of
        training. With its last warm-up step, the start barrier is released.
        """
        # Without restarted processes, which count their steps from zero.
        handles = self.handles[: len(self.plan.processes)]
        counts = [count for handle in handles if (count := handle.step_count()) is not None]
        if not counts:
            return
        slowest = min(counts, key=lambda count: count.done)
        if slowest.done and len(counts) >= self.plan.participants:
            self.cluster.apply_cpu_quota()
            barrier = self.plan.start_barrier
            if barrier is not None and slowest.done >= self.plan.run.steps.warmup:
                self.cluster.release(barrier)
        self.on_progress(slowest.done, slowest.planned)
