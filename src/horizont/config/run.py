"""One run: one workload on one system and topology, once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel, error_context
from horizont.config.faults import FaultSpec, check_fault
from horizont.config.input import InputPipeline, check_input_pipeline
from horizont.config.system import SYSTEMS, GradientExchange, System, check_gradient_exchange
from horizont.config.topology import Topology
from horizont.config.workload import Workload
from horizont.errors import UserError


class StepCounts(ConfigModel):
    """How many steps of each kind a worker makes, in this order.

    Timed steps give the training speed: the clock is read after loading and at the end of a step,
    nowhere else. Instrumented steps read it between the phases, too, which may slow them down, so
    both are reported. Profiled steps run under the profiler of the framework, in single-process
    systems only.

    Attributes
    ----------
    input_batches
        Batches read from the input pipeline alone, before the first step.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {"bare": "timed", "drained": "input_batches"}

    warmup: int = Field(ge=1)
    timed: int = Field(ge=1)
    instrumented: int = Field(default=0, ge=0)
    profiled: int = Field(default=0, ge=0)
    input_batches: int = Field(default=0, ge=0)

    @property
    def total(self) -> int:
        """All steps of one worker."""
        return self.warmup + self.timed + self.instrumented + self.profiled

    def segments(self) -> list[tuple[str, int]]:
        """List the segments in their order, as (kind, steps)."""
        kinds = ("warmup", "timed", "instrumented", "profiled")
        return [(kind, getattr(self, kind)) for kind in kinds]


class Evaluation(ConfigModel):
    """When the network is evaluated, and on how much.

    Attributes
    ----------
    examples
        Examples of the test set; 0 evaluates nothing.
    every
        Timed steps between two evaluations; 0 evaluates at the end only. The weights are copied
        between two steps and evaluated after training.
    """

    examples: int = Field(default=0, ge=0)
    every: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _check_consistency(self) -> Evaluation:
        if self.every and not self.examples:
            raise UserError("every", self.every, "0 where examples is 0")
        return self


#: What is recorded of the updates that asynchronous servers apply.
RecordedUpdates = Literal["none", "order", "gradients"]


class Run(ConfigModel):
    """Everything that decides what a run does. Equal runs do the same work.

    Attributes
    ----------
    record_updates
        Of asynchronous servers. `order`: the worker and the staleness of each update.
        `gradients`: the gradients, too, so that the run can be replayed. Either costs time in
        every step, so such a run is not for timing.
    fault
        Injected into one of the processes. The run then ends when all processes have ended or
        stalled.
    stall_timeout_s
        A run in which no process made a step or used CPU time for so long has stalled; by
        default only `timeout_s` ends it.
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
    evaluation: Evaluation = Evaluation()
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
    """Refuse a global batch that is no multiple of the workers."""
    if global_batch % workers:
        raise UserError("global_batch", global_batch, f"a multiple of the {workers} workers")


def check_roles(system: System, topology: Topology) -> None:
    """Refuse numbers of workers and servers that the system cannot have."""
    needs_servers = "server" in system.info.roles
    if system.is_local and topology.workers != 1:
        raise UserError("workers", topology.workers, f"1 for {system.name}")
    if needs_servers and topology.servers < 1:
        raise UserError("servers", topology.servers, f"at least 1 for {system.name}")
    if not needs_servers and topology.servers:
        raise UserError("servers", topology.servers, f"0 for {system.name}")
    if len(topology.addresses) > topology.workers:
        raise UserError(
            "addresses",
            list(topology.addresses),
            f"at most {topology.workers}, one for each worker",
        )


def check_input_batches(system: System, steps: StepCounts) -> None:
    """Refuse to measure the input pipeline alone in a distributed system."""
    if steps.input_batches and not system.is_local:
        raise UserError("steps.input_batches", steps.input_batches, f"0 for {system.name}")


def check_profiled_steps(system: System, steps: StepCounts) -> None:
    """Refuse to profile a distributed system."""
    if steps.profiled and not system.is_local:
        raise UserError("steps.profiled", steps.profiled, f"0 for {system.name}")


def check_recorded_updates(system: System, recorded: RecordedUpdates) -> None:
    """Refuse to record updates where the system cannot."""
    if recorded != "none" and not system.info.records_updates:
        recording = [name for name, info in SYSTEMS.items() if info.records_updates]
        raise UserError("record_updates", recorded, f"none, but for {', '.join(recording)}")
