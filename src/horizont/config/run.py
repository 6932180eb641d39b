"""One run: one workload on one system and topology, once."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel, error_context
from horizont.config.faults import FaultSpec, check_fault
from horizont.config.input import InputPipeline, check_input_pipeline
from horizont.config.system import SYSTEMS, GradientExchange, System, check_gradient_exchange
from horizont.config.topology import Topology
from horizont.config.workload import Workload
from horizont.errors import UserError


class StepCounts(ConfigModel):
    """How many steps of which kind each worker makes, in this order.

    Warm-up steps are timed but belong to no figure. Bare steps carry the headline time: no
    instrument but the clock after their load and at their ends. Instrumented steps follow; the
    clock is read between their phases, too, so they may differ, and stand beside the bare ones.
    Profiled steps come last, under the framework's own profiler; of one process only.

    Attributes
    ----------
    drained
        Batches that are taken from the input pipeline before the first step, without a network.
    """

    warmup: int = Field(ge=1)
    timed: int = Field(ge=1)
    instrumented: int = Field(ge=0)
    profiled: int = Field(default=0, ge=0)
    input_batches: int = Field(default=0, ge=0)

    @property
    def total(self) -> int:
        """All steps of one worker."""
        return self.warmup + self.timed + self.instrumented + self.profiled

    def segments(self) -> list[tuple[str, int]]:
        """List the segments in their order, as (kind, steps)."""
        return [
            ("warmup", self.warmup),
            ("timed", self.timed),
            ("instrumented", self.instrumented),
            ("profiled", self.profiled),
        ]


#: What is recorded of the updates that servers apply.
RecordedUpdates = Literal["none", "order", "gradients"]


class Run(ConfigModel):
    """Everything that decides what a run does. Two equal runs do the same work.

    Attributes
    ----------
    evaluate_every
        Bare steps between two looks at how good the network is; 0 looks in the end only. The
        weights are copied between two steps and evaluated when the training is over.
    record_updates
        Of asynchronous servers. `order`: which worker's gradient each update came from, and how
        stale it was. `gradients`: the numbers, too, so that the run can be replayed. Either
        costs time in every step: such a run is for looking at updates, not at times.
    incident
        What befalls one of the processes on the way. Such a run goes on as long as anything in
        it goes on.
    patience_s
        Without a step for so long, and with next to no processor time used, the run counts as
        hung; nothing leaves that to the deadline.
    """

    experiment: str
    workload_name: str
    workload: Workload
    system: System
    topology: Topology
    steps: StepCounts
    global_batch: int = Field(ge=1)
    block: int = Field(ge=0)
    seed: int = Field(ge=0)
    sampler_hz: float = Field(ge=0, le=100)
    evaluate_examples: int = Field(ge=0)
    evaluate_every: int = Field(default=0, ge=0)
    save_weights: bool = False
    record_updates: RecordedUpdates = "none"
    gradient_exchange: GradientExchange = GradientExchange()
    input: InputPipeline = InputPipeline()
    fault: FaultSpec | None = None
    stall_timeout_s: float | None = Field(default=None, gt=0)
    timeout_s: float = Field(gt=0)

    @property
    def local_batch(self) -> int:
        """Examples of one worker in one step."""
        return self.global_batch // self.topology.workers

    @model_validator(mode="after")
    def _check_consistency(self) -> Run:
        check_batch(self.global_batch, self.topology.workers)
        check_roles(self.system, self.topology)
        check_evaluation(self.evaluate_every, self.evaluate_examples)
        check_recorded_updates(self.system, self.record_updates)
        check_gradient_exchange(self.system, self.gradient_exchange)
        check_profiled_steps(self.system, self.steps)
        check_input_batches(self.system, self.steps)
        with error_context("input"):
            check_input_pipeline(self.system, self.input)
        if self.fault is not None:
            with error_context("fault"):
                check_fault(self.fault, self.system, self.topology, self.steps.total)
        return self


def check_batch(global_batch: int, workers: int) -> None:
    """Refuse a global batch that the workers cannot share evenly."""
    if global_batch % workers:
        raise UserError("global_batch", global_batch, f"a multiple of the {workers} workers")


def check_roles(system: System, topology: Topology) -> None:
    """Refuse numbers of processes that the system cannot have."""
    needs_servers = "server" in system.info.roles
    if system.is_local and topology.workers != 1:
        raise UserError("workers", topology.workers, f"1 for {system.name}")
    if needs_servers and topology.servers < 1:
        raise UserError("servers", topology.servers, f"at least 1 for {system.name}")
    if not needs_servers and topology.servers:
        raise UserError("servers", topology.servers, f"0 for {system.name}")
    if not topology.is_emulated and len(topology.addresses) > topology.workers:
        raise UserError(
            "addresses",
            list(topology.addresses),
            f"at most {topology.workers}, one for each worker",
        )


def check_input_batches(system: System, steps: StepCounts) -> None:
    """Refuse to drain a pipeline that belongs to no single process."""
    if steps.input_batches and not system.is_local:
        raise UserError("steps.input_batches", steps.input_batches, f"0 for {system.name}")


def check_evaluation(every: int, examples: int) -> None:
    """Refuse looks that look at nothing."""
    if every and not examples:
        raise UserError("evaluate_every", every, "0 where evaluate_examples is 0")


def check_profiled_steps(system: System, steps: StepCounts) -> None:
    """Refuse to profile the operators of several processes at work together."""
    if steps.profiled and not system.is_local:
        raise UserError("steps.profiled", steps.profiled, f"0 for {system.name}")


def check_recorded_updates(system: System, recorded: RecordedUpdates) -> None:
    """Refuse to record updates where they cannot be seen."""
    if recorded != "none" and not system.info.records_updates:
        able = [name for name, traits in SYSTEMS.items() if traits.records_updates]
        raise UserError("record_updates", recorded, f"none, but for {', '.join(able)}")
