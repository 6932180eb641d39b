"""What was published: the claims, the table of times, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

import pandas as pd
import yaml
from pydantic import ConfigDict, Field, TypeAdapter

from horizont.config.base import ConfigModel, parse_config

_FOLDER = files("horizont.analysis").joinpath("published")

#: The columns of the published table that the parts of a claim are about, added up.
PUBLISHED_COLUMNS: dict[str, tuple[str, ...]] = {
    "total_s": ("total_s",),
    "load_s": ("load_s",),
    "forward_s": ("forward_s",),
    "backward_s": ("backward_s",),
    "compute_s": ("forward_s", "backward_s"),
    "network_s": ("network_s",),
}

#: What one process does of it: everything but the network.
SINGLE_PROCESS_COLUMNS = ("load_s", "forward_s", "backward_s")


class Claim(ConfigModel):
    """A sentence that somebody published and that measurements can settle.

    Attributes
    ----------
    statistic
        What decides it, in words.
    """

    id: str
    source: str
    conditions: str
    claim: str
    published_value: str
    statistic: str


class Source(ConfigModel):
    """A publication and its set-up."""

    author: str
    title: str
    kind: str
    year: int
    setup: str


@cache
def read_claims() -> tuple[Claim, ...]:
    """Read the claims, in the order of their publications."""
    with _FOLDER.joinpath("claims.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, dtype=str, keep_default_na=False)
    rows = table.to_dict(orient="records")
    return tuple(parse_config(Claim, row, f"claims.csv.{row['id']}") for row in rows)


@cache
def read_sources() -> dict[str, Source]:
    """Read the publications by the name that claims give them."""
    values = yaml.safe_load(_FOLDER.joinpath("sources.yaml").read_text(encoding="utf-8"))
    return {name: parse_config(Source, value, f"sources.{name}") for name, value in values.items()}


def published_times() -> pd.DataFrame:
    """Read the published times of the 2021 study.

    Returns
    -------
    pandas.DataFrame
        A row a workload and distributed system: ``workload``, ``system`` as they are called here,
        ``table``, and in seconds for ten epochs ``total_s, load_s, forward_s, backward_s,
        network_s``.
    """
    with _FOLDER.joinpath("ntua_2021_times.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, dtype={"table": str})
    workload = table.pop("model") + "-" + table.pop("dataset")
    system = table.pop("framework") + "/" + table.pop("sync") + "/" + table.pop("architecture")
    table.insert(0, "workload", workload)
    table.insert(1, "system", system)
    return table


def published_seconds(workload: str, system: str, quantity: str) -> float:
    """Look a published time up; NaN if there is none.

    A single process has no row of its own: its times are those of its framework's synchronous
    row without the network, as the study itself has them.
    """
    table = published_times()
    own = table[table["workload"] == workload]
    wanted = PUBLISHED_COLUMNS.get(quantity, ())
    if system.endswith("/local"):
        rows = own[own["system"].str.startswith(f"{system.partition('/')[0]}/sync/")]
        wanted = SINGLE_PROCESS_COLUMNS if quantity == "total_s" else wanted
        wanted = () if quantity == "network_s" else wanted
    else:
        rows = own[own["system"] == system]
    if rows.empty or not wanted:
        return float("nan")
    return float(rows.iloc[0][list(wanted)].sum())


Expectation = Literal["above", "below", "equal"]
Count = int | Literal["min", "max"]


class CurvePoint(ConfigModel):
    """Where on a curve a quantity is looked up.

    Attributes
    ----------
    workload
        Another one than the rule's.
    batch, workers
        A number, or the ``min`` or ``max`` that the records hold; nothing takes any.
    least_workers
        With fewer the point says nothing about the claim.
    """

    workload: str = ""
    batch: Count | None = None
    workers: Count | None = None
    min_workers: int = 1


class Check(ConfigModel):
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
    """Two systems' quantities, one over the other; with ``all_settings`` at every point recorded."""

    kind: Literal["ratio"]
    over: str
    under: str
    all_settings: bool = False


class Ordering(Check):
    """One system has the least (``lowest``) or the most (``highest``) of a quantity."""

    kind: Literal["ordering"]
    lowest: str = ""
    highest: str = ""
    others: tuple[str, ...]


class Trend(Check):
    """One system's quantity at a point over that at another; with ``per_worker``, for each worker."""

    kind: Literal["trend"]
    system: str
    start: CurvePoint = Field(alias="from")
    end: CurvePoint = Field(alias="to")
    per_worker: bool = False


class Growth(Check):
    """By which factor a ratio of two systems grows from a point to another."""

    kind: Literal["growth"]
    over: str
    under: str
    start: CurvePoint = Field(alias="from")
    end: CurvePoint = Field(alias="to")


class Fraction(Check):
    """A share of one system, held against a threshold."""

    kind: Literal["fraction"]
    system: str


class SurvivesFault(Check):
    """What becomes of a training when one of its workers is killed."""

    kind: Literal["survives_fault"]
    completes: bool
    systems: tuple[str, ...]


class Learns(Check):
    """Whether a system learns anything: test accuracy above twice chance in most runs."""

    kind: Literal["learns"]
    system: str
    learns: bool
    min_workers: int = 1
    max_workers: int = 10_000


class NotTestable(Check):
    """Something that no experiment of this project can settle."""

    kind: Literal["not_testable"]
    reason: str


AnyCheck = Ratio | Ordering | Trend | Growth | Fraction | SurvivesFault | Learns | NotTestable
Rules = Mapping[str, tuple[AnyCheck, ...]]

_RULES_ADAPTER: TypeAdapter[
    dict[str, tuple[Annotated[AnyCheck, Field(discriminator="kind")], ...]]
] = TypeAdapter(dict[str, tuple[Annotated[AnyCheck, Field(discriminator="kind")], ...]])


def parse_rules(values: Mapping[str, Any]) -> Rules:
    """Check rules; keys that begin with an underscore hold what YAML's anchors point to."""
    return _RULES_ADAPTER.validate_python(
        {k: v for k, v in values.items() if not k.startswith("_")}
    )


@cache
def read_rules() -> Rules:
    """Read the rules of all claims."""
    text = files("horizont.analysis").joinpath("published", "rules.yaml")
    return parse_rules(yaml.safe_load(text.read_text(encoding="utf-8")))
