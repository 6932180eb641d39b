"""Published claims, their sources, and the rules that decide them (data in ``published/``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import nan
from typing import Annotated, Any, Literal

import pandas as pd
import yaml
from pydantic import ConfigDict, Field, TypeAdapter

from horizont.config.base import ConfigModel, parse_config

_FOLDER = files("horizont.analysis").joinpath("published")


class Claim(ConfigModel):
    """A published claim that measurements can decide; `statistic` describes how."""

    id: str
    source: str
    conditions: str
    claim: str
    published_value: str
    statistic: str


class Source(ConfigModel):
    """A publication and its experimental setup.

    Attributes
    ----------
    reference_system
        The system to which its times are related in comparisons with measured ones.
    """

    author: str
    title: str
    kind: str
    year: int
    setup: str
    reference_system: str = ""


@cache
def read_claims() -> tuple[Claim, ...]:
    """Read the claims, in the order of their publications."""
    with _FOLDER.joinpath("claims.csv").open(encoding="utf-8") as file:
        rows = pd.read_csv(file, dtype=str, keep_default_na=False).to_dict(orient="records")
    return tuple(parse_config(Claim, row, f"claims.csv.{row['id']}") for row in rows)


@cache
def read_sources() -> dict[str, Source]:
    """Read the publications, by the name that claims use."""
    values = yaml.safe_load(_FOLDER.joinpath("sources.yaml").read_text(encoding="utf-8"))
    return {name: parse_config(Source, value, f"sources.{name}") for name, value in values.items()}


@cache
def published_times() -> pd.DataFrame:
    """Read the published times of the 2021 study.

    One row per workload and distributed system: ``workload``, ``system`` in this project's names,
    ``table``, and in seconds for ten epochs ``total_s, load_s, forward_s, backward_s, network_s``.
    """
    with _FOLDER.joinpath("ntua_2021_times.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, dtype={"table": str})
    workload = table.pop("model") + "-" + table.pop("dataset")
    system = table.pop("framework") + "/" + table.pop("sync") + "/" + table.pop("architecture")
    table.insert(0, "workload", workload)
    table.insert(1, "system", system)
    return table


def published_seconds(workload: str, system: str, quantity: str) -> float:
    """Return a published time, NaN if there is none.

    A single process has no row of its own: as in the study, its times are those of its
    framework's synchronous row without the network.
    """
    times = published_times()
    times = times[times["workload"] == workload]
    times = times.assign(compute_s=times["forward_s"] + times["backward_s"])
    if system.endswith("/local"):
        single_process_s = times["load_s"] + times["forward_s"] + times["backward_s"]
        times = times.assign(total_s=single_process_s, network_s=nan)
        framework = system.removesuffix("/local")
        rows = times[times["system"].str.startswith(f"{framework}/sync/")]
    else:
        rows = times[times["system"] == system]
    return float(rows[quantity].iloc[0]) if len(rows) and quantity in rows else nan


Expectation = Literal["above", "below", "equal"]
Count = int | Literal["min", "max"]


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
    workloads
        All of them must support the claim; with ``any_workload`` the first that can be tested.
    experiments
        Names of the experiments to search, in order of preference.
    batch
        Examples of a worker in a step.
    expect, threshold
        The side of the threshold on which the interval must lie; by default the square root of
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
    """The ratio of two systems' quantities; with ``all_settings`` at every recorded setting."""

    kind: Literal["ratio"]
    over: str
    under: str
    all_settings: bool = False


class Ordering(Check):
    """The system with the ``lowest`` or the ``highest`` quantity."""

    kind: Literal["ordering"]
    lowest: str = ""
    highest: str = ""
    others: tuple[str, ...]


class Trend(Check):
    """The ratio of one system's quantity between two points; ``per_worker`` divides by workers."""

    kind: Literal["trend"]
    system: str
    start: CurvePoint = Field(alias="from")
    end: CurvePoint = Field(alias="to")
    per_worker: bool = False


class Growth(Check):
    """The factor by which a ratio of two systems grows from one point to another."""

    kind: Literal["growth"]
    over: str
    under: str
    start: CurvePoint = Field(alias="from")
    end: CurvePoint = Field(alias="to")


class Fraction(Check):
    """A fraction measured on one system, compared with a threshold."""

    kind: Literal["fraction"]
    system: str


class SurvivesFault(Check):
    """The outcome of a training in which a worker is killed."""

    kind: Literal["survives_fault"]
    completes: bool
    systems: tuple[str, ...]


class Learns(Check):
    """Whether a system learns: test accuracy above twice chance in most runs."""

    kind: Literal["learns"]
    system: str
    learns: bool
    min_workers: int = 1
    max_workers: int = 10_000


class NotTestable(Check):
    """A claim that no experiment of this project can decide."""

    kind: Literal["not_testable"]
    reason: str


AnyCheck = Ratio | Ordering | Trend | Growth | Fraction | SurvivesFault | Learns | NotTestable
Rules = Mapping[str, tuple[AnyCheck, ...]]

_RULES_ADAPTER: TypeAdapter[Any] = TypeAdapter(
    dict[str, tuple[Annotated[AnyCheck, Field(discriminator="kind")], ...]]
)


def parse_rules(values: Mapping[str, Any]) -> Rules:
    """Validate rules; keys with a leading underscore hold YAML anchors."""
    rules: Rules = _RULES_ADAPTER.validate_python(
        {name: checks for name, checks in values.items() if not name.startswith("_")}
    )
    return rules


@cache
def read_rules() -> Rules:
    """Read the rules of all claims."""
    return parse_rules(yaml.safe_load(_FOLDER.joinpath("rules.yaml").read_text(encoding="utf-8")))
