"""The settings of a whole study: ``params.yaml``, read and checked before anything starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, product
from pathlib import Path
from typing import Any, ClassVar

import yaml
from pydantic import Field, model_validator

from horizont.config.base import ConfigModel, check_unique, parse_config
from horizont.config.data import DataConfig
from horizont.config.experiment import Experiment
from horizont.config.run import MAX_STEPS, Run, StepCounts
from horizont.config.sweep import WORKLOAD_FIELDS
from horizont.config.system import System, parse_system
from horizont.config.workload import Workload
from horizont.errors import Problem, UserError
from horizont.wording import suggestion

#: A name is part of the names of files and folders.
_LONGEST_NAME = 64

#: Folders beside those of the experiments.
_RESERVED = ("reference", "replay")

#: With the number of a block added, generators of all frameworks take it.
_LARGEST_SEED = 2**31 - 1


class ComparisonSchedule(ConfigModel):
    """How far the comparator follows a training.

    Attributes
    ----------
    batch
        Examples of a step; half as many in the last step, as at the end of an epoch.
    at_steps
        Steps after which all tensors are compared, ascending.
    """

    batch: int = Field(ge=2)
    at_steps: tuple[int, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_ascending(self) -> ComparisonSchedule:
        if list(self.at_steps) != sorted(set(self.at_steps)) or self.at_steps[0] < 1:
            raise UserError("at_steps", list(self.at_steps), "ascending numbers from 1 up")
        if self.at_steps[-1] > MAX_STEPS:
            raise UserError("at_steps", self.at_steps[-1], f"numbers up to {MAX_STEPS}")
        return self


class EquivalenceConfig(ComparisonSchedule):
    """What the comparator verifies, see ``docs/settings.md``; its own schedule is the default."""

    RENAMED: ClassVar[Mapping[str, str]] = {"faults": "mutations", "replays": "replay"}

    workloads: tuple[str, ...] = Field(min_length=1)
    overrides: dict[str, ComparisonSchedule] = Field(default_factory=dict)
    mutations: tuple[str, ...] = ()
    replay: tuple[str, ...] = ()

    def schedule_for(self, workload: str) -> ComparisonSchedule:
        """Return the schedule for a workload."""
        return self.overrides.get(workload, self)


class Anchor(ConfigModel):
    """A run of a single process before and after each block, to detect a drift of the machine.

    A block whose second anchor is faster or slower by more than `max_drift` is repeated once.
    """

    workload: str
    system: str
    batch: int = Field(ge=1)
    steps: StepCounts
    max_drift: float = Field(default=0.05, gt=0, lt=1)

    @model_validator(mode="after")
    def _check_consistency(self) -> Anchor:
        if not parse_system(self.system).is_local:
            raise UserError("system", self.system, "a system of a single process")
        for kind in ("instrumented", "profiled", "input_batches"):
            if count := getattr(self.steps, kind):
                raise UserError(f"steps.{kind}", count, "0, as the timed steps are compared")
        return self


class Study(ConfigModel):
    """All settings of a study; see ``docs/settings.md``.

    Experiments and chapters are in the order of the report. `datasets` are those of the verified
    workloads, for DVC's stages.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {
        "study": "equivalence.workloads",
        "theory": "chapters",
        "incidents": "experiments.faults",
        **{name: f"experiments.{name}" for name in ("local", "distributed", "cluster", "links")},
        **{name: f"experiments.{name}" for name in ("scaling", "strong_scaling", "input")},
    }

    profile: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=_LONGEST_NAME)
    seed: int = Field(ge=0, le=_LARGEST_SEED)
    data: DataConfig
    datasets: tuple[str, ...] = Field(min_length=1)
    workloads: dict[str, Workload] = Field(min_length=1)
    equivalence: EquivalenceConfig
    anchor: Anchor | None = None
    experiments: dict[str, Experiment] = Field(min_length=1)
    chapters: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_names(self) -> Study:
        verified = self.equivalence.workloads
        for field in ("workloads", "overrides", "mutations", "replay"):
            names = tuple(getattr(self.equivalence, field))
            for name in names:
                if name not in self.workloads:
                    raise UserError(f"equivalence.{field}", name, sorted(self.workloads))
            check_unique(f"equivalence.{field}", names)
        check_unique("chapters", self.chapters)
        if self.anchor and self.anchor.workload not in verified:
            raise UserError("anchor.workload", self.anchor.workload, verified)
        if self.anchor and not any(one.anchored for one in self.experiments.values()):
            given = self.anchor.model_dump(exclude_unset=True)
            raise UserError("anchor", given, "null, as no experiment is anchored")
        self._check_datasets()
        for name in self.workloads:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or len(name) > _LONGEST_NAME:
                allowed = "of letters, digits, dots, hyphens and underscores"
                raise UserError("workloads", name, f"names {allowed}, at most {_LONGEST_NAME}")
            self._check_optimizer(name)
        for name, experiment in self.experiments.items():
            if not re.fullmatch("[a-z0-9_]+", name) or len(name) > _LONGEST_NAME:
                allowed = "of lower-case letters, digits and underscores"
                raise UserError("experiments", name, f"names {allowed}, at most {_LONGEST_NAME}")
            if name in _RESERVED:
                raise UserError("experiments", name, "a name that no folder of the project has")
            for workload in experiment.workloads:
                if workload not in verified:
                    known = f"{', '.join(verified)}{suggestion(workload, verified)}"
                    allowed = f"those of equivalence.workloads: {known}"
                    raise UserError(f"experiments.{name}.workloads", workload, allowed)
        return self

    def _check_optimizer(self, workload: str) -> None:
        """Refuse a setting of adam that is written for sgd, even if its value is the default.

        Not checked by `OptimizerConfig`, because a record has all settings of its optimizer.
        """
        optimizer = self.workloads[workload].optimizer
        for field in ("beta1", "beta2", "epsilon"):
            if optimizer.name == "sgd" and field in optimizer.model_fields_set:
                path, value = f"workloads.{workload}.optimizer.{field}", getattr(optimizer, field)
                raise UserError(path, value, "nothing with sgd, which has momentum")

    def _check_datasets(self) -> None:
        """Refuse another list of data sets than what the verified workloads need."""
        needed = {self.workloads[name].dataset: name for name in self.equivalence.workloads}
        for dataset, name in needed.items():
            if dataset not in self.datasets:
                known = suggestion(dataset, self.datasets)
                allowed = f"a name of the list datasets: {', '.join(self.datasets)}{known}"
                raise UserError(f"workloads.{name}.dataset", dataset, allowed)
        for dataset in self.datasets:
            if dataset not in needed:
                allowed = f"those of equivalence.workloads: {', '.join(needed)}"
                raise UserError("datasets", dataset, allowed)
            if self.datasets.count(dataset) > 1:
                raise UserError("datasets", dataset, "every name once")

    def workload(self, name: str) -> Workload:
        """Return a workload by its name; refuse a name that the study does not have."""
        if name not in self.workloads:
            raise UserError("workload", name, sorted(self.workloads))
        return self.workloads[name]

    def experiment(self, name: str) -> Experiment:
        """Return an experiment by its name; refuse a name that the study does not have."""
        if name not in self.experiments:
            raise UserError("experiment", name, list(self.experiments))
        return self.experiments[name]

    def experiment_title(self, name: str) -> str:
        """Return the heading of an experiment: its title, or its name in words."""
        return self.experiment(name).title or name.replace("_", " ").capitalize()

    def experiments_on(self, workload: str) -> list[str]:
        """List the experiments that run on a workload."""
        return [name for name, one in self.experiments.items() if workload in one.workloads]

    def runs_on(self, workload: str) -> Iterator[Run]:
        """Yield the runs of all experiments on a workload."""
        return chain.from_iterable(
            self.runs(name, workload) for name in self.experiments_on(workload)
        )

    def timed_batches(self, workload: str) -> tuple[int, ...]:
        """Return the numbers of examples in a step of the runs on a workload, ascending."""
        return tuple(sorted({run.local_batch for run in self.runs_on(workload)}))

    def swept_learning_rates(self, workload: str) -> tuple[float, ...]:
        """Return the learning rates of the runs on a workload, except its own, ascending."""
        rates = {run.workload.optimizer.learning_rate for run in self.runs_on(workload)}
        return tuple(sorted(rates - {self.workload(workload).optimizer.learning_rate}))

    def longest_run(self, workload: str) -> int:
        """Return the steps of the longest run on a workload; 0 if the comparator shall be short.

        A workload has a schedule of its own because more steps would take too long, or because
        rounding errors would hide everything in them.
        """
        if workload in self.equivalence.overrides:
            return 0
        return max((run.steps.total for run in self.runs_on(workload)), default=0)

    def systems(self) -> list[System]:
        """List the systems of all experiments, each once."""
        names = [
            system
            for experiment in self.experiments.values()
            for workload in experiment.workloads
            for system in experiment.on(workload).systems
        ]
        return [parse_system(name) for name in dict.fromkeys(names)]

    def runs(self, experiment: str, workload: str) -> Iterator[Run]:
        """Yield the runs of an experiment on one of its workloads, block by block."""
        settings = self.experiment(experiment)
        if workload not in settings.workloads:
            raise UserError("workload", workload, settings.workloads)
        settings = settings.on(workload)
        for block, name in product(range(settings.blocks), settings.systems):
            system = parse_system(name)
            for fields in settings.expand(name):
                point = {key: fields.pop(key) for key in WORKLOAD_FIELDS if key in fields}
                yield Run(
                    experiment=experiment,
                    workload_name=workload,
                    workload=self.workload(workload).at_point(point),
                    system=system,
                    steps=settings.steps,
                    block=block,
                    seed=self.seed + (block if settings.seed_per_block else 0),
                    sampler_hz=settings.sampler_hz,
                    evaluation=settings.evaluation,
                    record_updates=settings.record_updates
                    if system.info.records_updates
                    else "none",
                    gradient_exchange=settings.gradient_exchange,
                    stall_timeout_s=settings.stall_timeout_s,
                    timeout_s=settings.timeout_s,
                    **fields,
                )


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a key that stands twice in a mapping, of which YAML would use the last value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge" or not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                where = f"{key.start_mark.name}, line {key.start_mark.line + 1}"
                raise UserError(where, key.value, "every key of a mapping once")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _syntax_error(path: Path, error: yaml.YAMLError) -> UserError:
    """Return where a file is no YAML, with the text of that line, and why."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return UserError(str(path), " ".join(str(error).split()), "valid YAML")
    lines = path.read_text(encoding="utf-8").splitlines()
    line = lines[mark.line].strip() if mark.line < len(lines) else "the end of the file"
    why = getattr(error, "problem", None) or getattr(error, "context", "")
    return UserError(f"{path}, line {mark.line + 1}", line, f"valid YAML: {why}")


def read_study(path: Path) -> Study:
    """Read a study; refuse a missing file, no YAML, and a wrong or impossible setting."""
    try:
        loader = _UniqueKeys(path.read_text(encoding="utf-8"))
        loader.name = str(path)  # in messages; otherwise "<unicode string>"
        values = loader.get_single_data()
    except FileNotFoundError:
        remedy = "`horizont config use quick` writes it, or `git checkout params.yaml`"
        raise UserError(str(path), Problem("missing"), f"a file that exists; {remedy}") from None
    except OSError as error:
        raise UserError("settings file", str(path), f"a readable file: {error}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(
            f"{path}, line {line}", f"byte 0x{error.object[error.start]:02x}", "text in UTF-8"
        ) from None
    except yaml.YAMLError as error:
        raise _syntax_error(path, error) from None
    except RecursionError:
        raise UserError(str(path), "so many levels", "a mapping of settings") from None
    if not isinstance(values, dict):
        given = "an empty file" if values is None else type(values).__name__
        raise UserError(str(path), given, "a mapping of settings")
    return parse_config(Study, values)
