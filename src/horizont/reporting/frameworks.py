"""The published tables of frameworks, beside what is installed and what ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from horizont.analysis.surveys import read_surveys, run_outcomes
from horizont.config.system import FRAMEWORKS, SYSTEMS
from horizont.records.record import Record
from horizont.reporting import labels
from horizont.reporting.tables import Table, shorten, text_table

#: What each framework answered, by name, and the date; as of `horizont.workflow.check`.
FeatureAnswers = Mapping[str, Any]

#: Criterion of 2018 -> the features that were asked for to decide it.
FEATURES_OF_CRITERION = {
    "generic": ("generic",),
    "machines": ("machines",),
    "data_parallel": ("data_parallel",),
    "model_parallel": ("model_parallel",),
    "processors": ("cpus", "gpus"),
    "sync": ("sync", "async"),
}
FEATURE_LABELS = {"cpus": "CPUs", "gpus": "GPUs", "sync": "synchronous", "async": "asynchronous"}


def criteria_table(answers: FeatureAnswers) -> Table:
    """Put the criteria of 2018 beside what the installed frameworks answer today."""
    rows = []
    for name, criterion in read_surveys().criteria.items():
        row = {"criterion": criterion.label, "priority": criterion.priority}
        row |= {
            f"{labels.framework_label(framework)}, 2018": answer
            for framework, answer in criterion.found.items()
        }
        row |= {
            f"{labels.framework_label(framework)}, today": _criterion(name, answers[framework])
            for framework in FRAMEWORKS
        }
        rows.append(row)
    return text_table(pd.DataFrame(rows))


def _criterion(name: str, answer: Mapping[str, Any]) -> str:
    if "failed" in answer:
        return shorten(f"not tested: {answer['failed']}")
    if name == "python":
        return f"yes, {answer['version']}"
    if name == "infrastructure":
        return "none"
    wanted = FEATURES_OF_CRITERION[name]
    there = [feature for feature in wanted if answer["features"][feature]["available"]]
    if len(wanted) == 1:
        return "yes" if there else "no"
    return ", ".join(FEATURE_LABELS[feature] for feature in there) or "neither"


def sync_table(answers: FeatureAnswers, records: Sequence[Record]) -> Table:
    """Put synchronisation and architecture of 2021 beside what is offered and what ran here."""
    found = run_outcomes(records).set_index("system")
    rows = []
    for framework, then in read_surveys().entries.items():
        for sync, before in (("sync", then.sync), ("async", then.asynchronous)):
            names = [name for name in SYSTEMS if name.startswith(f"{framework}/{sync}/")]
            rows += [
                {
                    "framework": labels.framework_label(framework),
                    "updates": labels.SYNC[sync],
                    "2021": before,
                    "today": _architecture(name),
                    "its own": _native_support(answers[framework], sync, name),
                    "runs here": _runs_label(found, name),
                    "mechanism": SYSTEMS[name].mechanism,
                }
                for name in names
            ]
    return text_table(pd.DataFrame(rows))


def _architecture(system: str) -> str:
    name = system.rpartition("/")[2]
    return labels.ARCHITECTURES.get(name, name)


def _native_support(answer: Mapping[str, Any], sync: str, system: str) -> str:
    """Tell whether the framework brings it along, or it is made of the framework's parts here."""
    if "failed" in answer:
        return "not tested"
    offered = answer["features"][sync]["available"] and SYSTEMS[system].is_native
    return "yes" if offered else "no, built here"


def _runs_label(runs: pd.DataFrame, system: str) -> str:
    if system not in runs.index:
        return "no runs at hand"
    row = runs.loc[system]
    said = f"{row['ok']} of {row['planned']} went well"
    return f"{said}; {shorten(row['reason'])}" if row["reason"] else said


def backend_table(answers: FeatureAnswers) -> Table:
    """Put the libraries of 2021 beside what computes a convolution here."""
    rows = [
        {
            "framework": labels.framework_label(framework),
            "2021": f"{then.version}: {then.backend}",
            "today": answers[framework].get("version", "not tested"),
            "a convolution by oneDNN": _onednn_passes(answers[framework]),
        }
        for framework, then in read_surveys().entries.items()
    ]
    return text_table(pd.DataFrame(rows))


def _onednn_passes(answer: Mapping[str, Any]) -> str:
    if "failed" in answer:
        return shorten(f"not tested: {answer['failed']}")
    return " and ".join(answer["features"]["onednn"]["passes"]) or "no"


def feature_table(answers: FeatureAnswers) -> Table:
    """List what was asked of each framework, and whether it was there."""
    rows = [
        {
            "framework": labels.framework_label(framework),
            "feature": feature.replace("_", " "),
            "asked for": answer["query"],
            "there": "yes" if answer["available"] else "no",
        }
        for framework in FRAMEWORKS
        for feature, answer in answers[framework].get("features", {}).items()
    ]
    return text_table(pd.DataFrame(rows), group_by="framework" if rows else None)


def historical_table() -> Table:
    """Tell where historical frameworks stand, each with the page that says so."""
    surveys = read_surveys()
    rows = [
        {
            "framework": name,
            "state": found.state,
            f"source, looked up on {surveys.checked_on}": ", ".join(
                filter(None, [found.source, found.also])
            ),
        }
        for name, found in surveys.historical.items()
    ]
    return text_table(pd.DataFrame(rows))
