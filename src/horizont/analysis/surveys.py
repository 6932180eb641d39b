"""The published comparisons of frameworks, and which systems ran here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import pandas as pd
import yaml
from pydantic import Field

from horizont.analysis.runs import by_system
from horizont.config.base import ConfigModel, parse_config
from horizont.records.record import Record


class Criterion(ConfigModel):
    """A criterion of the 2018 study and its results."""

    label: str
    priority: str
    found: dict[str, str]


class SurveyEntry(ConfigModel):
    """A framework in the 2021 study."""

    version: str
    sync: str
    asynchronous: str = Field(alias="async")  # a keyword of Python
    backend: str


class Historical(ConfigModel):
    """The present state of a framework, with its sources."""

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
    values["checked_on"] = str(values["checked_on"])
    return parse_config(Surveys, values, "frameworks.yaml")


def run_outcomes(records: Sequence[Record]) -> pd.DataFrame:
    """Count the successful runs of each system, without those with an injected fault.

    One row per system: ``system``, ``ok`` of ``planned`` runs, ``reason`` of the first that did not
    succeed.
    """
    unfaulted = [record for record in records if record.run.fault is None]
    rows = []
    for system, runs in by_system(unfaulted).items():
        reasons = [record.result.reason for record in runs if not record.ok]
        rows.append((system, len(runs) - len(reasons), len(runs), next(iter(reasons), "")))
    return pd.DataFrame(rows, columns=["system", "ok", "planned", "reason"])
