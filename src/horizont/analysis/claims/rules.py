"""The rules that decide published claims (data in ``published/rules.yaml``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal

import yaml
from pydantic import ConfigDict, Field, TypeAdapter, model_validator

from horizont.analysis.claims.publications import FOLDER, publication_of, read_claims
from horizont.config.base import ConfigModel
from horizont.config.input import InputPipeline

#: Two quantities whose ratio lies within this factor of one are equal.
EQUAL_WITHIN = 1.1

Expectation = Literal["above", "below", "equal"]
Count = int | Literal["min", "max"]


class Side(ConfigModel):
    """A system in a rule, with its arrangement; in the file, a name alone is the system.

    Attributes
    ----------
    servers
        Acceptable numbers in order of preference, `each` for one per worker; empty for any.
    placement
        See :class:`horizont.config.topology.Topology`; None for any.
    input
        The input pipeline; by default the examples are in memory.
    """

    system: str
    servers: tuple[int | Literal["each"], ...] = ()
    placement: Literal["colocated", "dedicated"] | None = None
    input: InputPipeline = InputPipeline()

    @property
    def pipeline(self) -> InputPipeline:
        """The input pipeline with the name of its reader."""
        if not self.input.from_files:
            return self.input
        reader = self.input.reader_of(self.system.partition("/")[0])
        return self.input.model_copy(update={"reader": reader})

    def label(self) -> str:
        """Return the system, with the arrangement that the rule requires."""
        parts: list[str] = []
        if len(self.servers) == 1:
            (count,) = self.servers
            names = {"each": "a server per worker", 1: "1 server"}
            parts.append(names.get(count, f"{count} servers"))
        parts += [self.placement] if self.placement else []
        if self.input.from_files:
            parts.append(self.pipeline.label(self.system.partition("/")[0]))
        return f"{self.system} with {', '.join(parts)}" if parts else self.system

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"system": value} if isinstance(value, str) else value


class CurvePoint(ConfigModel):
    """A point of a curve at which a quantity is measured.

    Attributes
    ----------
    workload
        Another one than that of the rule.
    batch, workers
        A number, or the ``min`` or ``max`` among the records; by default any.
    min_workers
        With fewer workers the point does not test the claim.
    """

    workload: str = ""
    batch: Count | None = None
    workers: Count | None = None
    min_workers: int = 1


class Check(ConfigModel):
    """One part of a rule.

    Attributes
    ----------
    publication
        The one that makes the claim, filled in by `parse_rules`.
    decides
        Whether the verdict on the claim depends on it; otherwise it explains the others.
    workloads
        All of them must support the claim; with ``any_workload`` the first that can be tested.
    experiments
        Names of the experiments to search, in order of preference; empty for all.
    batch
        Examples of a worker in a step.
    initial_limit
        Of uniform initial weights; by default the network's own initial weights.
    expect, threshold
        The side of the threshold on which the interval must lie; by default the square root of
        the published factor, or 1 where none was published.
    within
        The factor within which two quantities count as equal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    publication: str = ""
    decides: bool = True
    quantity: str = ""
    workloads: tuple[str, ...] = ("",)
    any_workload: bool = False
    experiments: tuple[str, ...] = ()
    batch: int | None = None
    workers: int | None = None
    learning_rate: float | None = None
    initial_limit: float | None = None
    published: float | None = None
    expect: Expectation = "above"
    threshold: float | None = None
    within: float = EQUAL_WITHIN


class Contrast(Check):
    """A quantity of one system, or its ratio to that of another, in one setting or at two points.

    Attributes
    ----------
    kind
        A ``fraction`` of one system, compared with a threshold; the ``ratio`` of two systems; the
        ``trend`` of one system: the ratio between two points; the ``growth`` of the ratio of two
        systems from one point to another.
    all_settings
        Whether every recorded setting is a part of the claim.
    per_worker
        Whether the quantity is divided by the workers.
    speedup
        Whether the quantity is divided by that of one worker.
    """

    kind: Literal["fraction", "ratio", "trend", "growth"]
    over: Side
    under: Side | None = None
    start: CurvePoint | None = Field(default=None, alias="from")
    end: CurvePoint | None = Field(default=None, alias="to")
    all_settings: bool = False
    per_worker: bool = False
    speedup: bool = False

    @model_validator(mode="before")
    @classmethod
    def _from_system(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Accept ``system``, the only one of a fraction or of a trend, as the first one."""
        return {"over" if name == "system" else name: value for name, value in values.items()}


class Ordering(Check):
    """The system with the ``lowest`` or the ``highest`` quantity."""

    kind: Literal["ordering"]
    lowest: Side | None = None
    highest: Side | None = None
    others: tuple[Side, ...]


class HalfRate(Check):
    """The link rate, in 10^6 bits per second, below which communication is half of the step."""

    kind: Literal["half_rate"]
    quantity: str = "network_fraction"
    system: Side


class SurvivesFault(Check):
    """The outcome of a training in which a worker is killed."""

    kind: Literal["survives_fault"]
    completes: bool
    systems: tuple[Side, ...]


class Completes(Check):
    """Whether runs whose hosts a command started complete, with samples of every host.

    Attributes
    ----------
    command
        Of the launcher `command`, such as ``mpirun``.
    """

    kind: Literal["completes"]
    command: str
    systems: tuple[Side, ...]


class Learns(Check):
    """Whether a system learns: test accuracy above twice chance in most runs."""

    kind: Literal["learns"]
    quantity: str = "final_accuracy"
    system: Side
    learns: bool
    min_workers: int = 1
    max_workers: int = 10_000


class LargestTrainable(Check):
    """Whether the largest number of workers with which a system learns rises as the rate falls.

    Attributes
    ----------
    learning_rates
        From the largest to the smallest.
    """

    kind: Literal["largest_trainable"]
    quantity: str = "final_accuracy"
    system: Side
    learning_rates: tuple[float, ...]


class NotTestable(Check):
    """A claim that no experiment of this project can decide."""

    kind: Literal["not_testable"]
    reason: str


AnyCheck = (
    Contrast
    | Ordering
    | HalfRate
    | SurvivesFault
    | Completes
    | Learns
    | LargestTrainable
    | NotTestable
)
Rules = Mapping[str, tuple[AnyCheck, ...]]

_RULES_ADAPTER: TypeAdapter[Any] = TypeAdapter(
    dict[str, tuple[Annotated[AnyCheck, Field(discriminator="kind")], ...]]
)


def parse_rules(values: Mapping[str, Any]) -> Rules:
    """Validate rules; keys with a leading underscore hold YAML anchors."""
    rules: Rules = _RULES_ADAPTER.validate_python(
        {name: checks for name, checks in values.items() if not name.startswith("_")}
    )
    publications = {claim.id: publication_of(claim.source) for claim in read_claims()}
    return {
        name: tuple(
            check.model_copy(update={"publication": publications.get(name, "")}) for check in checks
        )
        for name, checks in rules.items()
    }


@cache
def read_rules() -> Rules:
    """Read the rules of all claims."""
    return parse_rules(yaml.safe_load(FOLDER.joinpath("rules.yaml").read_text(encoding="utf-8")))
