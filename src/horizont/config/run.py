"""One run: one workload on one system and topology, once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel, error_context
from horizont.config.faults import FaultSpec, check_fault
from horizont.config.input import InputPipeline, check_input_pipeline
from horizont.config.system import SYSTEMS, GradientExchange, System, trainer_name
from horizont.config.topology import Topology
from horizont.config.workload import Workload
from horizont.errors import UserError

#: More steps are a mistake: at 100 steps a second they take hours.
MAX_STEPS = 1_000_000


class StepCounts(ConfigModel):
    """How many steps of each kind a worker makes, in this order.

    Timed steps give the training speed: the clock is read after loading and at the end of a step,
    nowhere else. Instrumented steps read it between the phases, too, which may slow them down, so
    both are reported. Profiled steps run under the profiler of the framework, in single-process
    systems only. Input batches are read from the input pipeline alone, before the first step.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {"bare": "timed", "drained": "input_batches"}

    warmup: int = Field(ge=1, le=MAX_STEPS)
    timed: int = Field(ge=1, le=MAX_STEPS)
    instrumented: int = Field(default=0, ge=0, le=MAX_STEPS)
    profiled: int = Field(default=0, ge=0, le=MAX_STEPS)
    input_batches: int = Field(default=0, ge=0, le=MAX_STEPS)

    @property
    def total(self) -> int:
        """All steps of one worker."""
        return self.warmup + self.timed + self.instrumented + self.profiled

    def segments(self) -> list[tuple[str, int]]:
        """List the segments in their order, as (kind, steps)."""
        kinds = ("warmup", "timed", "instrumented", "profiled")
        return [(kind, getattr(self, kind)) for kind in kinds]


class Evaluation(ConfigModel):
    """When the network is evaluated, and on how many examples; see ``docs/settings.md``."""

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

    @property
    def trainer_name(self) -> str:
        """The framework with variant and device, to which an equivalence certificate applies."""
        return trainer_name(self.system.framework, self.system.variant, self.topology.device)

    @model_validator(mode="after")
    def _check_consistency(self) -> Run:
        check_settings(
            self.system, self.topology, self.global_batch, self.steps, self.gradient_exchange
        )
        check_recorded_updates(self.record_updates, [self.system])
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


def check_recorded_updates(recorded: RecordedUpdates, systems: Iterable[System]) -> None:
    """Refuse to record updates if no system has a server that does."""
    if recorded != "none" and not any(system.info.records_updates for system in systems):
        recording = [name for name, info in SYSTEMS.items() if info.records_updates]
        raise UserError("record_updates", recorded, f"none, but for {', '.join(recording)}")


def check_settings(
    system: System,
    topology: Topology,
    global_batch: int,
    steps: StepCounts,
    exchange: GradientExchange,
) -> None:
    """Refuse settings of a run that its system cannot have."""
    workers, servers = topology.workers, topology.servers
    check_batch(global_batch, workers)
    if topology.device not in system.devices:
        allowed = f"{', '.join(system.devices)} for {system.name}"
        raise UserError("topology.device", topology.device, allowed)
    if system.is_local and workers != 1:
        raise UserError("topology.workers", workers, f"1 for {system.name}")
    needs_servers = "server" in system.info.roles
    if needs_servers and servers < 1:
        raise UserError("topology.servers", servers, f"at least 1 for {system.name}")
    if not needs_servers and servers:
        raise UserError("topology.servers", servers, f"0 for {system.name}")
    if len(topology.addresses) > workers:
        allowed = f"at most {workers}, one for each worker"
        raise UserError("topology.addresses", list(topology.addresses), allowed)
    for kind in ("profiled", "input_batches"):  # in a single process only
        count = getattr(steps, kind)
        if count and not system.is_local:
            raise UserError(f"steps.{kind}", count, f"0 for {system.name}")
    if not system.info.has_gradient_exchange:
        with error_context("gradient_exchange"):
            exchange.check_defaults(f"for {system.name}")
