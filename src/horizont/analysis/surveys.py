"""The published tables of frameworks, and what ran of the systems by the records at hand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import pandas as pd
import yaml

from horizont.analysis.runs import system_order
from horizont.config.base import ConfigModel, parse_config
from horizont.records.record import Record


class Criterion(ConfigModel):
    """A criterion of the 2018 study, with what it found."""

    label: str
    priority: str
    tensorflow: str
    mxnet: str


class SurveyEntry(ConfigModel):
    """What the 2021 study had of a framework."""

    version: str
    sync: str
    # `async` is a word of Python's own.
    backend: str
    asynchronous: str


class Historical(ConfigModel):
    """Where a framework stands today, and which page says so."""

    state: str
    source: str
    also: str = ""


class Surveys(ConfigModel):
    """All published tables of frameworks."""

    criteria: dict[str, Criterion]
    entries: dict[str, SurveyEntry]
    checked_on: str
    historical: dict[str, Historical]


@cache
def read_surveys() -> Surveys:
    """Read the published tables."""
    path = files("horizont.analysis").joinpath("published", "frameworks.yaml")
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    for row in values["entries"].values():
        row["asynchronous"] = row.pop("async")
    return parse_config(
        Surveys, {**values, "checked_on": str(values["checked_on"])}, "frameworks.yaml"
    )


def run_outcomes(records: Sequence[Record]) -> pd.DataFrame:
    """Count what became of the runs of each system to which nothing was done.

    Returns
    -------
    pandas.DataFrame
        A row a system: ``system``, ``ok`` of ``planned`` runs, ``reason`` of the first that gave
        nothing, ``record``, the name of one that went well.
    """
    own = [record for record in records if record.run.fault is None]
    rows = []
    for system in system_order(record.run.system.name for record in own):
        runs = [record for record in own if record.run.system.name == system]
        good = [record.folder.name for record in runs if record.ok]
        reasons = [record.result.reason for record in runs if not record.ok]
        rows.append(
            {
                "system": system,
                "ok": len(good),
                "planned": len(runs),
                "reason": reasons[0] if reasons else "",
                "record": good[0] if good else "",
            }
        )
    return pd.DataFrame(rows, columns=["system", "ok", "planned", "reason", "record"])
