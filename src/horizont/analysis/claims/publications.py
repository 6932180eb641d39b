"""The published claims, their publications and the published times (data in ``published/``)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from math import nan

import pandas as pd
import yaml
from pydantic import Field

from horizont.config.base import ConfigModel, parse_config

#: The data on publications, and the rules.
FOLDER = files("horizont.analysis").joinpath("published")


class Claim(ConfigModel):
    """A published claim that measurements can decide; `statistic` describes how."""

    id: str
    source: str
    conditions: str
    claim: str
    published_value: str
    statistic: str


class PublishedSetup(ConfigModel):
    """What a publication ran on one workload.

    Attributes
    ----------
    steps
        Examples of a worker in a step -> steps of a worker in the whole training.
    hosts
        With the servers; None where they had hosts of their own.
    """

    workers: tuple[int, ...]
    steps: dict[int, int]
    hosts: int | None = None

    def includes(self, workers: int, batch: int) -> bool:
        """Whether it was run with so many workers, each with so many examples in a step."""
        return workers in self.workers and batch in self.steps


class Source(ConfigModel):
    """A publication and its experimental setup.

    Attributes
    ----------
    reference_system
        The system to which its times are related in comparisons with measured ones.
    setups
        By workload; a claim on any other workload is a general one.
    """

    author: str
    title: str
    kind: str
    year: int
    setup: str
    reference_system: str = ""
    setups: dict[str, PublishedSetup] = Field(default_factory=dict)


@cache
def read_claims() -> tuple[Claim, ...]:
    """Read the claims, in the order of their publications."""
    with FOLDER.joinpath("claims.csv").open(encoding="utf-8") as file:
        rows = pd.read_csv(file, dtype=str, keep_default_na=False).to_dict(orient="records")
    return tuple(parse_config(Claim, row, f"claims.csv.{row['id']}") for row in rows)


@cache
def read_sources() -> dict[str, Source]:
    """Read the publications, by the name that claims use."""
    values = yaml.safe_load(FOLDER.joinpath("sources.yaml").read_text(encoding="utf-8"))
    return {name: parse_config(Source, value, f"sources.{name}") for name, value in values.items()}


def publication_of(source: str) -> str:
    """Return the name of the publication in the source of a claim, which may name a section."""
    return next((name for name in read_sources() if source.startswith(name)), "")


def published_steps(workload: str, batch: int) -> float:
    """Return the steps of a worker in the published training, NaN if there was none."""
    setups = (source.setups.get(workload) for source in read_sources().values())
    return next((setup.steps[batch] for setup in setups if setup and batch in setup.steps), nan)


@cache
def published_times() -> pd.DataFrame:
    """Read the published times of the 2021 study.

    One row per workload and distributed system: ``workload``, ``system`` in this project's names,
    ``table``, and in seconds for ten epochs ``total_s, load_s, forward_s, backward_s, network_s``.
    """
    with FOLDER.joinpath("ntua_2021_times.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, dtype={"table": str})
    workload = table.pop("model") + "-" + table.pop("dataset")
    system = table.pop("framework") + "/" + table.pop("sync") + "/" + table.pop("architecture")
    table.insert(0, "workload", workload)
    table.insert(1, "system", system)
    return table


def published_seconds(workload: str, system: str, quantity: str) -> float:
    """Return a published time, NaN if there is none.

    A single process has no row of its own: as in the study, its times are those of its
    framework's synchronous row without the network. The backward times have the update in them,
    since load, forward and backward were published as all of a local step.
    """
    times = published_times()
    times = times[times["workload"] == workload]
    times = times.assign(compute_update_s=times["forward_s"] + times["backward_s"])
    times = times.rename(columns={"backward_s": "backward_update_s"})
    if system.endswith("/local"):
        single_process_s = times["load_s"] + times["compute_update_s"]
        times = times.assign(total_s=single_process_s, network_s=nan)
        framework = system.removesuffix("/local")
        rows = times[times["system"].str.startswith(f"{framework}/sync/")]
    else:
        rows = times[times["system"] == system]
    return float(rows[quantity].iloc[0]) if len(rows) and quantity in rows else nan
