"""The rules by which records decide the published claims; data, checked on reading.

The rules themselves are in ``analysis/published/rules.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

import yaml
from pydantic import ConfigDict, Field, TypeAdapter

from horizont.spec import Frozen

Expectation = Literal["above", "below", "equal"]
Count = int | Literal["least", "most"]


class At(Frozen):
    """Where on a curve a quantity is looked up.

    Attributes
    ----------
    workload
        Another one than the rule's.
    batch, workers
        A number, or the ``least`` or ``most`` that the records hold; nothing takes any.
    least_workers
        With fewer the point says nothing about the claim.
    """

    workload: str = ""
    batch: Count | None = None
    workers: Count | None = None
    least_workers: int = 1


class Check(Frozen):
    """One part of a rule.

    Attributes
    ----------
    workloads
        Each of them must bear the claim out; with ``any_workload`` the first that can is taken.
    experiments
        Where to look, in order of preference.
    batch
        Examples of a worker in a step.
    expect, threshold
        Which side of the threshold the interval must lie on; nothing takes the square root of
        the published factor, or 1 where none was published.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    quantity: str = ""
    workloads: tuple[str, ...] = ("",)
    any_workload: bool = False
    experiments: tuple[str, ...] = ()
    batch: int | None = None
    workers: int | None = None
    learning_rate: float | None = None
    published: float | None = None
    expect: Expectation = "above"
    threshold: float | None = None


class Ratio(Check):
    """Two systems' quantities, one over the other; with ``every`` at every point recorded."""

    kind: Literal["ratio"]
    over: str
    under: str
    every: bool = False


class Ordering(Check):
    """One system has the least (``first``) or the most (``last``) of a quantity."""

    kind: Literal["ordering"]
    first: str = ""
    last: str = ""
    others: tuple[str, ...]


class Trend(Check):
    """One system's quantity at a point over that at another; with ``each``, for each worker."""

    kind: Literal["trend"]
    system: str
    start: At = Field(alias="from")
    end: At = Field(alias="to")
    each: bool = False


class Growth(Check):
    """By which factor a ratio of two systems grows from a point to another."""

    kind: Literal["growth"]
    over: str
    under: str
    start: At = Field(alias="from")
    end: At = Field(alias="to")


class Share(Check):
    """A share of one system, held against a threshold."""

    kind: Literal["share"]
    system: str


class Survival(Check):
    """What becomes of a training when one of its workers is killed."""

    kind: Literal["survival"]
    goes_on: bool
    systems: tuple[str, ...]


class Learning(Check):
    """Whether a system learns anything: test accuracy above twice chance in most runs."""

    kind: Literal["learning"]
    system: str
    learns: bool
    least_workers: int = 1
    most_workers: int = 10_000


class Outside(Check):
    """Something that no experiment of this project can settle."""

    kind: Literal["outside"]
    reason: str


AnyCheck = Ratio | Ordering | Trend | Growth | Share | Survival | Learning | Outside
Rules = Mapping[str, tuple[AnyCheck, ...]]

_FORM: TypeAdapter[dict[str, tuple[Annotated[AnyCheck, Field(discriminator="kind")], ...]]] = (
    TypeAdapter(dict[str, tuple[Annotated[AnyCheck, Field(discriminator="kind")], ...]])
)


def parse_rules(values: Mapping[str, Any]) -> Rules:
    """Check rules; keys that begin with an underscore hold what YAML's anchors point to."""
    return _FORM.validate_python({k: v for k, v in values.items() if not k.startswith("_")})


@cache
def read_rules() -> Rules:
    """Read the rules of all claims."""
    text = files("horizont.analysis").joinpath("published", "rules.yaml")
    return parse_rules(yaml.safe_load(text.read_text(encoding="utf-8")))
