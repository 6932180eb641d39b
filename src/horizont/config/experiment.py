"""An experiment: systems run on workloads, in randomised blocks, over the points of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from horizont.config.base import ConfigModel, Title, check_unique, error_context, parse_config
from horizont.config.faults import FaultSpec, applies_to, check_fault, fault_targets
from horizont.config.input import check_input_pipeline, readers_of, supports_input
from horizont.config.run import (
    Evaluation,
    RecordedUpdates,
    StepCounts,
    check_batch,
    check_recorded_updates,
    check_settings,
)
from horizont.config.sweep import (
    BATCH_FIELDS,
    TOPOLOGY_FIELDS,
    WORKLOAD_FIELDS,
    Sweep,
    expand_sweep,
    input_at,
)
from horizont.config.system import GradientExchange, System, parse_system
from horizont.config.topology import MAX_SERVERS, Placement, Topology
from horizont.errors import UserError

#: What an experiment is about; ``notebooks/<kind>.ipynb`` shows it.
Kind = Literal["training", "sweep", "faults", "input"]

#: Pages about an experiment beside its own: ``notebooks/views/<view>.ipynb``.
View = Literal["operators", "resources", "verdicts"]

#: More blocks are a mistake.
MAX_BLOCKS = 1000


class Overrides(ConfigModel):
    """Settings of an experiment for one of its workloads, in the place of its own.

    Either batch replaces both of the experiment; `sweep` replaces the settings that it names.
    """

    systems: tuple[str, ...] | None = Field(default=None, min_length=1)
    global_batch: int | None = Field(default=None, ge=1)
    local_batch: int | None = Field(default=None, ge=1)
    steps: StepCounts | None = None
    blocks: int | None = Field(default=None, ge=1, le=MAX_BLOCKS)
    sweep: Sweep = Field(default_factory=dict)
    evaluation: Evaluation | None = None
    timeout_s: float | None = Field(default=None, gt=0)


class ServerLayout(ConfigModel):
    """How many servers some systems have, and where; `each`: as many as workers."""

    servers: int | Literal["each"] = 1
    placement: Placement = "colocated"

    @field_validator("servers", mode="before")
    @classmethod
    def _check_servers(cls, value: Any) -> Any:
        if value != "each" and not (type(value) is int and 1 <= value <= MAX_SERVERS):
            raise UserError("", value, f"each, or an integer from 1 to {MAX_SERVERS}")
        return value


class Experiment(ConfigModel):
    """A set of systems run on every workload, in randomised blocks; see ``docs/settings.md``.

    The first pattern of `server_layouts` that fits a system applies. `overrides` are by workload.
    Without `seed_per_block`, all blocks repeat the same training.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {
        "vary": "sweep",
        "vary_on": "overrides.<workload>.sweep",
        "steps_on": "overrides.<workload>.steps",
        "incidents": "faults",
        "evaluate_examples": "evaluation.examples",
        "evaluate_every": "evaluation.every",
        "exchange": "gradient_exchange",
        "patience_s": "stall_timeout_s",
        "deadline_s": "timeout_s",
    }

    kind: Kind
    title: Title = ""
    workloads: tuple[str, ...] = Field(min_length=1)
    systems: tuple[str, ...] = Field(min_length=1)
    topology: Topology = Topology()
    server_layouts: dict[str, ServerLayout] = Field(default_factory=dict)
    global_batch: int | None = Field(default=None, ge=1)
    local_batch: int | None = Field(default=None, ge=1)
    steps: StepCounts
    blocks: int = Field(default=1, ge=1, le=MAX_BLOCKS)
    seed_per_block: bool = False
    anchored: bool = True
    sweep: Sweep = Field(default_factory=dict)
    overrides: dict[str, Overrides] = Field(default_factory=dict)
    faults: tuple[FaultSpec, ...] = ()
    evaluation: Evaluation = Evaluation()
    gradient_exchange: GradientExchange = GradientExchange()
    record_updates: RecordedUpdates = "none"
    views: tuple[View, ...] = ()
    sampler_hz: float = Field(default=5.0, ge=0, le=100)
    timeout_s: float = Field(default=120.0, gt=0)
    stall_timeout_s: float | None = Field(default=None, gt=0)

    def on(self, workload: str) -> Experiment:
        """Return the experiment with its overrides for a workload."""
        own = self.overrides.get(workload, Overrides())
        changes = {name: value for name, value in own if value is not None}
        if any(name in changes for name in BATCH_FIELDS):
            changes = {**dict.fromkeys(BATCH_FIELDS), **changes}
        return self.model_copy(update={**changes, "sweep": {**self.sweep, **own.sweep}})

    def expand(self, system: str) -> list[dict[str, Any]]:
        """List the runs of a system in each block, as fields of a run that differ between them.

        Those of `WORKLOAD_FIELDS` belong to the workload of the run. Points that are equal to the
        system (the number of servers to one without servers) are listed once.
        """
        parsed = parse_system(system)
        points = list(self._fields_at_points(parsed))
        distinct = [point for number, point in enumerate(points) if point not in points[:number]]
        if not self.faults:
            return distinct
        faults = [fault for fault in self.faults if applies_to(fault, parsed)]
        return [{**point, "fault": fault} for point in distinct for fault in faults]

    def _fields_at_points(self, system: System) -> Iterator[dict[str, Any]]:
        """Yield the fields at the sweep points of a system.

        A reader of files belongs to the systems of one framework.
        """
        for point in expand_sweep(self.sweep):
            pipeline = input_at(point)
            if supports_input(pipeline, system):
                topology, batch = self._processes_at(point, system)
                of_workload = {name: point[name] for name in WORKLOAD_FIELDS if name in point}
                fields = {"topology": topology, "global_batch": batch, "input": pipeline}
                yield fields | of_workload

    def server_layout(self, system: System) -> ServerLayout | None:
        """Return the layout of a system's servers; None if that of the topology applies."""
        layouts = self.server_layouts.items()
        return next((one for pattern, one in layouts if fnmatchcase(system.name, pattern)), None)

    def _processes_at(self, point: Mapping[str, Any], system: System) -> tuple[Topology, int]:
        """Return topology and global batch at a sweep point.

        A system without servers gets none. A single-process system in a multi-worker experiment
        runs the batch of one worker, as the baseline.
        """
        swept = {name: value for name, value in point.items() if name in TOPOLOGY_FIELDS}
        fields = {**self.topology.model_dump(), **swept}
        if (layout := self.server_layout(system)) is not None:
            each = layout.servers == "each"
            fields["servers"] = fields["workers"] if each else layout.servers
            fields["placement"] = layout.placement
        topology = parse_config(Topology, fields, "topology")
        workers = topology.workers
        batch = point.get("global_batch", self.global_batch)
        local_batch = point.get("local_batch", self.local_batch if batch is None else None)
        if local_batch is not None:
            batch = local_batch * workers
        assert batch is not None, "an experiment has a batch"
        changes: dict[str, Any] = {}
        if "server" not in system.info.roles:
            changes = {"servers": 0, "placement": "colocated"}
        if system.is_local and workers > 1:
            check_batch(batch, workers)
            batch //= workers
            changes |= {"workers": 1, "hosts": 0, "addresses": topology.addresses[:1]}
        return Topology.model_validate({**topology.model_dump(), **changes}), batch

    @model_validator(mode="after")
    def _check_consistency(self) -> Experiment:
        for workload, own in self.overrides.items():
            if workload not in self.workloads:
                raise UserError("overrides", workload, self.workloads)
            swept = [name for name in BATCH_FIELDS if name in self.sweep | own.sweep]
            for field in BATCH_FIELDS:
                if swept and (batch := getattr(own, field)) is not None:
                    allowed = f"null, as sweep has {swept[0]}"
                    raise UserError(f"overrides.{workload}.{field}", batch, allowed)
        check_unique("workloads", self.workloads)
        check_unique("views", self.views)
        expand_sweep(self.sweep)
        self._check_kind()
        for workload in self.workloads:
            with self.written_paths(workload):
                self.on(workload)._check_on_workload()
        self._check_unused()
        return self

    @contextmanager
    def written_paths(self, workload: str) -> Iterator[None]:
        """Name the field of a user error as it is written, in a sweep or for this workload."""
        try:
            yield
        except UserError as error:
            field = self._written_path(workload, error.field)
            raise UserError(field, error.value, error.allowed) from None

    def _written_path(self, workload: str, field: str) -> str:
        own = self.overrides.get(workload, Overrides())
        parts = field.removeprefix("sweep.").split(".")
        for number, name in enumerate(parts):
            if name in own.sweep or name in self.sweep:
                path = ".".join(["sweep", *parts[number:]])
                return f"overrides.{workload}.{path}" if name in own.sweep else path
        return f"overrides.{workload}.{field}" if parts[0] in own.model_fields_set else field

    def _check_on_workload(self) -> None:
        """Refuse impossible settings; overrides are already applied."""
        check_unique("systems", self.systems)
        workers = self.topology.workers
        is_swept = any(name in self.sweep for name in BATCH_FIELDS)
        if not is_swept and self.global_batch is None and self.local_batch is None:
            raise UserError("global_batch", None, "an integer here or in local_batch")
        if self.global_batch is not None and "workers" not in self.sweep:
            local_batch = self.global_batch // workers
            if self.local_batch not in (None, local_batch):
                allowed = f"global_batch / workers = {local_batch}"
                raise UserError("local_batch", self.local_batch, allowed)
        systems = [parse_system(name, "systems") for name in self.systems]
        if all(system.is_local for system in systems):
            for count in self.sweep.get("workers", (workers,)):
                if count != 1:
                    raise UserError("topology.workers", count, f"1 for {', '.join(self.systems)}")
            if (sharding := self.topology.sharding) != "global_batches":
                allowed = f"global_batches for {', '.join(self.systems)}"
                raise UserError("topology.sharding", sharding, allowed)
        for system in systems:
            for fields in self._fields_at_points(system):
                self._check_run(system, fields)
        if self.steps.input_batches and self.kind != "input":
            allowed = f"0 for an experiment of kind {self.kind}"
            raise UserError("steps.input_batches", self.steps.input_batches, allowed)
        if self.stall_timeout_s is not None and self.stall_timeout_s >= self.timeout_s:
            allowed = f"less than timeout_s, which is {self.timeout_s:g}"
            raise UserError("stall_timeout_s", self.stall_timeout_s, allowed)
        self._check_sweep()

    def _check_sweep(self) -> None:
        """Refuse to sweep a setting that no system has, such as the servers of a ring."""
        for name, values in self.sweep.items():
            first = self.model_copy(update={"sweep": {**self.sweep, name: values[:1]}})
            counts = ((len(one.expand(system)) for one in (self, first)) for system in self.systems)
            if len(values) > 1 and all(swept == fixed for swept, fixed in counts):
                allowed = f"one value, as it changes nothing in {', '.join(self.systems)}"
                raise UserError(f"sweep.{name}", values, allowed)

    def _check_kind(self) -> None:
        """Refuse a kind whose notebook could not show the runs."""
        sweeps = [self.on(workload).sweep for workload in self.workloads]
        settings: dict[Kind, tuple[str, bool]] = {
            "faults": ("faults", bool(self.faults)),
            "input": ("sweep.input", any("input" in sweep for sweep in sweeps)),
            "sweep": ("sweep", any(sweeps)),
        }
        given: list[Kind] = [kind for kind, (_, is_given) in settings.items() if is_given]
        fitting = given[0] if given else "training"
        if self.kind != fitting:
            name, is_given = settings.get(fitting) or settings[self.kind]
            why = f"{name} is {'given' if is_given else 'missing'}"
            raise UserError("kind", self.kind, f"{fitting}, since {why}")

    def _check_run(self, system: System, fields: Mapping[str, Any]) -> None:
        """Refuse settings and faults that are impossible at a sweep point."""
        topology, batch = fields["topology"], fields["global_batch"]
        with error_context("sweep.input"):
            check_input_pipeline(system, fields["input"])
        check_settings(system, topology, batch, self.steps, self.gradient_exchange)
        for number, fault in enumerate(self.faults):
            if applies_to(fault, system):
                with error_context(f"faults[{number}]"):
                    check_fault(fault, system, topology, self.steps.total)

    def _check_unused(self) -> None:
        """Refuse a fault, a server layout, a recording and a reader that no system has."""
        by_workload = {name: self.on(name) for name in self.workloads}
        names = dict.fromkeys(name for one in by_workload.values() for name in one.systems)
        systems = [parse_system(name) for name in names]
        for number, fault in enumerate(self.faults):
            if not any(applies_to(fault, system) for system in systems):
                roles = {role for system in systems for role in fault_targets(system)}
                raise UserError(f"faults[{number}].target", fault.target, sorted(roles))
            if fault in self.faults[:number]:
                given = fault.model_dump(exclude_unset=True)
                raise UserError(f"faults[{number}]", given, "each of them once")
        check_recorded_updates(self.record_updates, systems)
        with_servers = [one.name for one in systems if "server" in one.info.roles]
        for pattern in self.server_layouts:
            remaining = [name for name in with_servers if not fnmatchcase(name, pattern)]
            if remaining == with_servers:
                others = ", ".join(with_servers) or "systems with servers that no earlier one fits"
                raise UserError("server_layouts", pattern, f"a pattern of {others}")
            with_servers = remaining  # an earlier pattern precedes
        for one in by_workload.values():
            for point in expand_sweep(one.sweep):
                pipeline = input_at(point)
                parsed = [parse_system(name) for name in one.systems]
                if not any(supports_input(pipeline, system) for system in parsed):
                    readers = readers_of(parsed)
                    raise UserError("sweep.input.reader", pipeline.reader, readers)
