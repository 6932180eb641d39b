"""The settings of a whole study: `params.yaml`, read and checked before anything starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, model_validator

from horizont.errors import UserError
from horizont.spec.base import Frozen, validate
from horizont.spec.exchange import Exchange, check_exchange
from horizont.spec.run import RecordedUpdates, Run, Steps, check_batch, check_looks, check_roles
from horizont.spec.system import System, parse_system
from horizont.spec.topology import Topology
from horizont.spec.workload import Workload

Source = Literal["synthetic", "available", "real"]


class DataSettings(Frozen):
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

    source: Source = "available"
    mirror: Path | None = None
    train_examples: int | None = Field(default=None, ge=1)
    test_examples: int | None = Field(default=None, ge=1)


class Following(Frozen):
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
    def _ascending(self) -> Following:
        if list(self.at_steps) != sorted(set(self.at_steps)) or self.at_steps[0] < 1:
            raise UserError("at_steps", list(self.at_steps), "ascending numbers from 1 up")
        return self


class EquivalenceSettings(Following):
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

    workloads: dict[str, Following] = Field(default_factory=dict)
    faults: tuple[str, ...] = ()
    replays: tuple[str, ...] = ()

    def of(self, workload: str) -> Following:
        """Tell how far the frameworks are followed on a workload."""
        return self.workloads.get(workload, self)


class Experiment(Frozen):
    """A set of systems to be timed on every workload, in randomised blocks.

    Attributes
    ----------
    record_updates
        As of :class:`horizont.spec.Run`; for the systems that show their updates.
    exchange
        Holds for all systems; one that does not have what it asks for is refused.
    """

    systems: tuple[str, ...] = Field(min_length=1)
    topology: Topology
    global_batch: int = Field(ge=1)
    local_batch: int | None = Field(default=None, ge=1)
    steps: Steps
    blocks: int = Field(ge=1)
    evaluate_examples: int = Field(default=0, ge=0)
    evaluate_every: int = Field(default=0, ge=0)
    sampler_hz: float = Field(default=5.0, ge=0, le=100)
    deadline_s: float = Field(default=120.0, gt=0)
    record_updates: RecordedUpdates = "none"
    exchange: Exchange = Exchange()

    @model_validator(mode="after")
    def _possible(self) -> Experiment:
        workers = self.topology.workers
        check_batch(self.global_batch, workers)
        check_looks(self.evaluate_every, self.evaluate_examples)
        if self.local_batch not in (None, self.global_batch // workers):
            raise UserError(
                "local_batch",
                self.local_batch,
                f"global_batch / workers = {self.global_batch // workers}",
            )
        for name in self.systems:
            system = parse_system(name)
            check_roles(system, topology_for(self.topology, name))
            check_exchange(system, self.exchange)
        return self


class Study(Frozen):
    """All settings of a study."""

    profile: str
    seed: int = Field(ge=0)
    data: DataSettings
    datasets: tuple[str, ...] = Field(min_length=1)
    study: tuple[str, ...] = Field(min_length=1)
    workloads: dict[str, Workload]
    equivalence: EquivalenceSettings
    local: Experiment
    distributed: Experiment

    @model_validator(mode="after")
    def _known_workloads(self) -> Study:
        proven = self.equivalence
        named = {
            "equivalence.workloads": proven.workloads,
            "equivalence.faults": proven.faults,
            "equivalence.replays": proven.replays,
        }
        for field, names in {"study": self.study, **named}.items():
            for name in names:
                if name not in self.workloads:
                    raise UserError(field, name, sorted(self.workloads))
        needed = sorted({self.workloads[name].dataset for name in self.study})
        if sorted(self.datasets) != needed:
            raise UserError("datasets", list(self.datasets), f"what the study needs: {needed}")
        return self

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
        """Look an experiment up by its name: `local` or `distributed`."""
        if name not in ("local", "distributed"):
            raise UserError("experiment", name, ["local", "distributed"])
        return self.local if name == "local" else self.distributed

    def systems(self) -> list[System]:
        """List the systems of all experiments, each once."""
        names = dict.fromkeys([*self.local.systems, *self.distributed.systems])
        return [parse_system(name) for name in names]

    def runs(self, experiment: str, workload_name: str) -> Iterator[Run]:
        """List the runs of an experiment on a workload, block by block, systems in given order."""
        settings = self.experiment(experiment)
        for block in range(settings.blocks):
            for name in settings.systems:
                yield self._run(experiment, settings, workload_name, name, block)

    def _run(
        self, experiment: str, settings: Experiment, workload_name: str, system: str, block: int
    ) -> Run:
        return Run(
            experiment=experiment,
            workload_name=workload_name,
            workload=self.workload(workload_name),
            system=parse_system(system),
            topology=topology_for(settings.topology, system),
            steps=settings.steps,
            global_batch=settings.global_batch,
            block=block,
            seed=self.seed,
            sampler_hz=settings.sampler_hz,
            evaluate_examples=settings.evaluate_examples,
            evaluate_every=settings.evaluate_every,
            exchange=settings.exchange,
            record_updates=(
                settings.record_updates if parse_system(system).traits.shows_updates else "none"
            ),
            deadline_s=settings.deadline_s,
        )


def topology_for(topology: Topology, system: str) -> Topology:
    """Drop the servers from a topology for a system that has none."""
    if "server" in parse_system(system).traits.extra_roles:
        return topology
    return topology.model_copy(update={"servers": 0})


def read_study(path: Path) -> Study:
    """Read and check a study's settings.

    Raises
    ------
    UserError
        If the file is missing, is no YAML, or holds a wrong, unknown or impossible setting.
    """
    return validate(Study, read_yaml(path))


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
