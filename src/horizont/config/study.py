"""The settings of a whole study: `params.yaml`, read and checked before anything starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, model_validator

from horizont.config.base import ConfigModel, error_context, parse_config
from horizont.config.experiment import expand_sweep, input_at, run_fields_at, supports_point
from horizont.config.faults import FaultSpec, applies_to, check_fault
from horizont.config.input import check_input_pipeline
from horizont.config.run import (
    RecordedUpdates,
    Run,
    StepCounts,
    check_batch,
    check_evaluation,
    check_input_batches,
    check_profiled_steps,
    check_roles,
)
from horizont.config.system import GradientExchange, System, check_gradient_exchange, parse_system
from horizont.config.topology import Topology
from horizont.config.workload import Workload
from horizont.errors import UserError

DataSource = Literal["synthetic", "available", "real"]


class DataConfig(ConfigModel):
    """Where the data come from, and how much of them.

    Attributes
    ----------
    source
        `available`: the real set where it can be had without a network, else a labelled
        synthetic one. `real`: the real set, fetched if need be. `synthetic`: never the real one.
    mirror
        A folder that holds the official archives.
    train_examples, test_examples
        Use only the first examples of each set; nothing takes all.
    """

    source: DataSource = "available"
    mirror: Path | None = None
    train_examples: int | None = Field(default=None, ge=1)
    test_examples: int | None = Field(default=None, ge=1)


class ComparisonSchedule(ConfigModel):
    """How far the frameworks are followed side by side.

    Attributes
    ----------
    batch
        Examples of a step; of the last one half as many, as at the end of an epoch.
    at_steps
        Steps after which everything is compared.
    """

    batch: int = Field(ge=2)
    at_steps: tuple[int, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_ascending(self) -> ComparisonSchedule:
        if list(self.at_steps) != sorted(set(self.at_steps)) or self.at_steps[0] < 1:
            raise UserError("at_steps", list(self.at_steps), "ascending numbers from 1 up")
        return self


class EquivalenceConfig(ComparisonSchedule):
    """How far the frameworks are followed.

    Attributes
    ----------
    workloads
        Where it is another way for a workload.
    faults
        Workloads on which the comparator is tried with deliberate mistakes.
    replays
        Workloads on which asynchronous training is recorded and replayed.
    """

    overrides: dict[str, ComparisonSchedule] = Field(default_factory=dict)
    mutations: tuple[str, ...] = ()
    replay: tuple[str, ...] = ()

    def schedule_for(self, workload: str) -> ComparisonSchedule:
        """Tell how far the frameworks are followed on a workload."""
        return self.overrides.get(workload, self)


class Experiment(ConfigModel):
    """A set of systems to be run on every workload, in randomised blocks.

    Attributes
    ----------
    workloads
        Out of those of the study; nothing takes them all, an empty list leaves the experiment
        out.
    vary
        What the runs differ in beside the system: settings of the topology, `global_batch` or
        `local_batch`, `input`, each with its values; every combination is run, but a reader only
        by the systems of its framework. A local system among systems of several workers is run
        with one worker's share, as their twin.
    vary_on
        Other values for a workload.
    steps_on
        Other steps for a workload.
    record_updates
        As of :class:`horizont.config.Run`; for the systems that show their updates.
    exchange
        Holds for all systems; one that does not have what it asks for is refused.
    incidents
        A run of each for every system that has the role it happens to; without any there is one
        run, to which nothing happens.
    patience_s
        As of :class:`horizont.config.Run`.
    """

    systems: tuple[str, ...] = Field(min_length=1)
    topology: Topology
    global_batch: int = Field(ge=1)
    local_batch: int | None = Field(default=None, ge=1)
    steps: StepCounts
    blocks: int = Field(ge=1)
    evaluate_examples: int = Field(default=0, ge=0)
    evaluate_every: int = Field(default=0, ge=0)
    sampler_hz: float = Field(default=5.0, ge=0, le=100)
    timeout_s: float = Field(default=120.0, gt=0)
    record_updates: RecordedUpdates = "none"
    gradient_exchange: GradientExchange = GradientExchange()
    workloads: tuple[str, ...] | None = None
    sweep: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    vary_on: dict[str, dict[str, tuple[Any, ...]]] = Field(default_factory=dict)
    steps_on: dict[str, StepCounts] = Field(default_factory=dict)
    faults: tuple[FaultSpec, ...] = ()
    stall_timeout_s: float | None = Field(default=None, gt=0)

    @property
    def is_timing(self) -> bool:
        """Whether its runs are there for the times of a system as such."""
        return not self.faults and "input" not in self.sweep

    def expand(self, system: str, workload: str = "") -> list[dict[str, Any]]:
        """List what is run of a system in each block, as fields of :class:`Run` to set.

        Points that are the same to the system (one without servers does not see their number)
        are listed once.
        """
        shaped = self._run_fields(system, self.vary_on.get(workload, {}))
        once = [each for place, each in enumerate(shaped) if each not in shaped[:place]]
        if not self.faults:
            return once
        parsed = parse_system(system)
        befalling = [{"fault": each} for each in self.faults if applies_to(each, parsed)]
        return [{**shape, **incident} for shape in once for incident in befalling]

    def _all_run_fields(self, system: str) -> list[dict[str, Any]]:
        """List topology and batch of all points of a system, on any workload."""
        others = ({}, *self.vary_on.values())
        return [shape for other in others for shape in self._run_fields(system, other)]

    def _run_fields(
        self, system: str, overrides: dict[str, tuple[Any, ...]]
    ) -> list[dict[str, Any]]:
        """List topology and batch of all points of a system, with other values for some."""
        every = expand_sweep({**self.sweep, **overrides})
        return [
            run_fields_at(self.topology, self.global_batch, system, point)
            for point in every
            if supports_point(point, system)
        ]

    @model_validator(mode="after")
    def _check_consistency(self) -> Experiment:
        workers = self.topology.workers
        if "workers" not in self.sweep:
            check_batch(self.global_batch, workers)
        check_evaluation(self.evaluate_every, self.evaluate_examples)
        if self.local_batch not in (None, self.global_batch // workers):
            raise UserError(
                "local_batch",
                self.local_batch,
                f"global_batch / workers = {self.global_batch // workers}",
            )
        if workers > 1 and all(parse_system(name).is_local for name in self.systems):
            raise UserError("topology.workers", workers, f"1 for {', '.join(self.systems)}")
        for name in self.systems:
            system = parse_system(name)
            check_gradient_exchange(system, self.gradient_exchange)
            for steps in (self.steps, *self.steps_on.values()):
                check_profiled_steps(system, steps)
                check_input_batches(system, steps)
            for shape in self._all_run_fields(name):
                with error_context("sweep.input"):
                    check_input_pipeline(system, shape["input"])
                check_batch(shape["global_batch"], shape["topology"].workers)
                check_roles(system, shape["topology"])
        self._check_faults()
        self._check_readers()
        return self

    def _check_readers(self) -> None:
        """Refuse a reader of files that no system has."""
        for point in expand_sweep(self.sweep):
            if not any(supports_point(point, name) for name in self.systems):
                reader = input_at(point).reader
                raise UserError("sweep.input.reader", reader, f"one of {', '.join(self.systems)}")

    def _check_faults(self) -> None:
        """Refuse an incident that no system can have, or that one cannot have as it is."""
        systems = {name: parse_system(name) for name in self.systems}
        for place, incident in enumerate(self.faults):
            able = [name for name, system in systems.items() if applies_to(incident, system)]
            with error_context(f"faults.{place}"):
                for name in able:
                    for shape in self._all_run_fields(name):
                        topology = shape["topology"]
                        for steps in (self.steps, *self.steps_on.values()):
                            check_fault(incident, systems[name], topology, steps.total)
                if not able:
                    raise UserError("target", incident.target, "a role that one of the systems has")


class Study(ConfigModel):
    """All settings of a study. Each field that is an :class:`Experiment` is one of its own.

    Attributes
    ----------
    theory
        The notebooks that explain, in the order of the book.
    """

    profile: str
    seed: int = Field(ge=0)
    data: DataConfig
    datasets: tuple[str, ...] = Field(min_length=1)
    study: tuple[str, ...] = Field(min_length=1)
    workloads: dict[str, Workload]
    equivalence: EquivalenceConfig
    local: Experiment
    distributed: Experiment
    cluster: Experiment
    links: Experiment
    scaling: Experiment
    strong_scaling: Experiment
    faults: Experiment
    input: Experiment
    chapters: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_workloads(self) -> Study:
        proven = self.equivalence
        named = {
            "equivalence.workloads": proven.overrides,
            "equivalence.mutations": proven.mutations,
            "equivalence.replay": proven.replay,
        }
        for field, names in {"study": self.study, **named}.items():
            for name in names:
                if name not in self.workloads:
                    raise UserError(field, name, sorted(self.workloads))
        needed = sorted({self.workloads[name].dataset for name in self.study})
        if sorted(self.datasets) != needed:
            raise UserError("datasets", list(self.datasets), f"what the study needs: {needed}")
        for name, settings in self.experiments.items():
            for workload in settings.workloads or ():
                if workload not in self.study:
                    raise UserError(f"{name}.workloads", workload, self.study)
            for field in ("vary_on", "steps_on"):
                for workload in getattr(settings, field):
                    if workload not in self.workloads:
                        raise UserError(f"{name}.{field}", workload, sorted(self.workloads))
        return self

    @property
    def experiments(self) -> dict[str, Experiment]:
        """The experiments by name, in the order of the book."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in values.items() if isinstance(value, Experiment)}

    def workloads_of(self, experiment: str) -> tuple[str, ...]:
        """List the workloads on which an experiment is made."""
        chosen = self.experiment(experiment).workloads
        return self.study if chosen is None else chosen

    def experiments_on(self, workload: str) -> list[str]:
        """List the experiments that are made on a workload."""
        return [name for name in self.experiments if workload in self.workloads_of(name)]

    def workload(self, name: str) -> Workload:
        """Look a workload up by its name.

        Raises
        ------
        UserError
            If the study has no such workload.
        """
        if name not in self.workloads:
            raise UserError("workload", name, sorted(self.workloads))
        return self.workloads[name]

    def experiment(self, name: str) -> Experiment:
        """Look an experiment up by its name.

        Raises
        ------
        UserError
            If the study has no such experiment.
        """
        if name not in self.experiments:
            raise UserError("experiment", name, list(self.experiments))
        return self.experiments[name]

    def systems(self) -> list[System]:
        """List the systems of all experiments that are made on some workload, each once."""
        made = [each for name, each in self.experiments.items() if self.workloads_of(name)]
        names = dict.fromkeys(name for settings in made for name in settings.systems)
        return [parse_system(name) for name in names]

    def runs(self, experiment: str, workload_name: str) -> Iterator[Run]:
        """List the runs of an experiment on a workload, block by block, systems in given order."""
        settings = self.experiment(experiment)
        for block in range(settings.blocks):
            for name in settings.systems:
                plain = self._run_fields(experiment, settings, workload_name, name, block)
                for changes in settings.expand(name, workload_name):
                    yield Run(**{**plain, **changes})

    def _run_fields(
        self, experiment: str, settings: Experiment, workload_name: str, system: str, block: int
    ) -> dict[str, Any]:
        parsed = parse_system(system)
        return {
            "experiment": experiment,
            "workload_name": workload_name,
            "workload": self.workload(workload_name),
            "system": parsed,
            "steps": settings.steps_on.get(workload_name, settings.steps),
            "block": block,
            "seed": self.seed,
            "sampler_hz": settings.sampler_hz,
            "evaluate_examples": settings.evaluate_examples,
            "evaluate_every": settings.evaluate_every,
            "gradient_exchange": settings.gradient_exchange,
            "record_updates": settings.record_updates if parsed.info.records_updates else "none",
            "stall_timeout_s": settings.stall_timeout_s,
            "timeout_s": settings.timeout_s,
        }


def read_study(path: Path) -> Study:
    """Read and check a study's settings.

    Raises
    ------
    UserError
        If the file is missing, is no YAML, or holds a wrong, unknown or impossible setting.
    """
    return parse_config(Study, read_yaml(path))


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that must hold a mapping."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError("settings file", str(path), "a file that exists") from None
    except yaml.YAMLError as error:
        raise UserError(str(path), " ".join(str(error).split()), "valid YAML") from None
    if not isinstance(values, dict):
        raise UserError(str(path), type(values).__name__, "a mapping of settings")
    return values
