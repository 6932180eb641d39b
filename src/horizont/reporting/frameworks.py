"""Tables of published framework surveys beside the installed versions and the study's runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from horizont.analysis.surveys import read_surveys, run_outcomes
from horizont.config.system import FRAMEWORKS, SYSTEMS, parse_system
from horizont.records.record import Record
from horizont.reporting import labels
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import table
from horizont.reporting.tables import text_table
from horizont.wording import shorten

#: Answers by framework, and the date; see `horizont.workflow.check.query_features`.
Features = Mapping[str, Any]

#: Criterion of 2018 -> the features that decide it.
_FEATURES_OF_CRITERION = {
    "generic": ("generic",),
    "machines": ("machines",),
    "data_parallel": ("data_parallel",),
    "model_parallel": ("model_parallel",),
    "processors": ("cpus", "gpus"),
    "sync": ("sync", "async"),
}
#: What the tables say of a framework that the study of 2021 did not compare.
NOT_SURVEYED = "not in the study"

_FEATURE_LABELS = {"cpus": "CPUs", "gpus": "GPUs", "sync": "synchronous", "async": "asynchronous"}


@table("criteria", title="The criteria of 2018")
def criteria_table(features: Features) -> TableOutput:
    """Build the table of the criteria of 2018, then and today."""
    rows = []
    for name, criterion in read_surveys().criteria.items():
        row = {"criterion": criterion.label, "priority": criterion.priority}
        for framework, found in criterion.found.items():
            row[f"{labels.framework_label(framework)}, 2018"] = found
        for framework in FRAMEWORKS:
            today = _criterion(name, features[framework])
            row[f"{labels.framework_label(framework)}, today"] = today
        rows.append(row)
    return text_table(rows)


def _criterion(name: str, answer: Mapping[str, Any]) -> str:
    if "failed" in answer:
        return shorten(f"not tested: {answer['failed']}")
    if name == "python":
        return f"yes, {answer['version']}"
    if name == "infrastructure":
        return "none"
    tested = _FEATURES_OF_CRITERION[name]
    available = [feature for feature in tested if answer["features"][feature]["available"]]
    if len(tested) == 1:
        return "yes" if available else "no"
    return ", ".join(_FEATURE_LABELS[feature] for feature in available) or "neither"


@table("synchronisation", title="Synchronisation and architecture")
def sync_table(features: Features, records: Sequence[Record]) -> TableOutput:
    """Build the table of synchronisation and architecture of 2021, today and in this study."""
    outcomes = run_outcomes(records).set_index("system").to_dict("index")
    rows = [
        {
            "framework": labels.framework_label(framework),
            "updates": labels.SYNC[sync],
            "2021": published,
            "today": labels.ARCHITECTURES[parse_system(name).architecture],
            "native": _native_support(features[framework], sync, name),
            "runs here": _runs_label(outcomes[name]) if name in outcomes else "no runs",
            "mechanism": info.mechanism,
        }
        for framework in FRAMEWORKS
        for sync, published in _published_architectures(framework).items()
        for name, info in SYSTEMS.items()
        if name.startswith(f"{framework}/{sync}/")
    ]
    return text_table(rows)


def _published_architectures(framework: str) -> dict[str, str]:
    """Return the architectures of 2021, by synchronisation."""
    if entry := read_surveys().entries.get(framework):
        return {"sync": entry.sync, "async": entry.asynchronous}
    return {"sync": NOT_SURVEYED, "async": NOT_SURVEYED}


def _native_support(answer: Mapping[str, Any], sync: str, system: str) -> str:
    """Return whether the framework provides the mechanism, or the adapter builds it."""
    if "failed" in answer:
        return "not tested"
    is_native = answer["features"][sync]["available"] and SYSTEMS[system].is_native
    return "yes" if is_native else "no, built here"


def _runs_label(outcome: Mapping[Any, Any]) -> str:
    label = f"{outcome['ok']} of {outcome['planned']} succeeded"
    return f"{label}; {shorten(outcome['reason'])}" if outcome["reason"] else label


@table("backends", title="Libraries")
def backend_table(features: Features) -> TableOutput:
    """Build the table of the libraries of 2021 and of those that compute a convolution today."""
    rows = [
        {
            "framework": labels.framework_label(framework),
            "2021": _published_backend(framework),
            "today": features[framework].get("version", "not tested"),
            "convolution by oneDNN": _onednn_passes(features[framework]),
        }
        for framework in FRAMEWORKS
    ]
    return text_table(rows)


def _published_backend(framework: str) -> str:
    entry = read_surveys().entries.get(framework)
    return f"{entry.version}: {entry.backend}" if entry else NOT_SURVEYED


def _onednn_passes(answer: Mapping[str, Any]) -> str:
    if "failed" in answer:
        return shorten(f"not tested: {answer['failed']}")
    return " and ".join(answer["features"]["onednn"]["passes"]) or "no"


@table("features", title="The queries")
def feature_table(features: Features) -> TableOutput:
    """Build the table of the features that were queried, grouped by framework."""
    rows = [
        {
            "framework": labels.framework_label(framework),
            "feature": feature.replace("_", " "),
            "query": answer["query"],
            "available": "yes" if answer["available"] else "no",
        }
        for framework in FRAMEWORKS
        for feature, answer in features[framework].get("features", {}).items()
    ]
    return text_table(rows, group_by="framework")


@table("historical_frameworks", title="Historical frameworks")
def historical_table() -> TableOutput:
    """Build the table of the state of historical frameworks, with sources."""
    surveys = read_surveys()
    heading = f"source, checked on {surveys.checked_on}"
    rows = [
        {
            "framework": name,
            "state": entry.state,
            heading: ", ".join(filter(None, [entry.source, entry.also])),
        }
        for name, entry in surveys.historical.items()
    ]
    return text_table(rows)
