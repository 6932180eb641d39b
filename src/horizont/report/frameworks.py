"""The published tables of frameworks, beside what is installed and what ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from horizont.analysis.surveys import ran, read_surveys
from horizont.records import Record
from horizont.report import words
from horizont.report.tables import Table, plain_table, shortened
from horizont.spec import FRAMEWORKS, SYSTEMS

#: What each framework answered, by name, and the date; as of `horizont.pipeline.features`.
Asked = Mapping[str, Any]

#: Criterion of 2018 -> the features that were asked for to decide it.
DECIDED_BY = {
    "generic": ("generic",),
    "machines": ("machines",),
    "data_parallel": ("data_parallel",),
    "model_parallel": ("model_parallel",),
    "processors": ("cpus", "gpus"),
    "sync": ("sync", "async"),
}
SAID = {"cpus": "CPUs", "gpus": "GPUs", "sync": "synchronous", "async": "asynchronous"}


def criteria_table(asked: Asked) -> Table:
    """Put the criteria of 2018 beside what the installed frameworks answer today."""
    rows = []
    for name, criterion in read_surveys().criteria.items():
        row = {"criterion": criterion.words, "priority": criterion.priority}
        row |= {"TensorFlow, 2018": criterion.tensorflow, "MXNet, 2018": criterion.mxnet}
        row |= {
            f"{words.framework(framework)}, today": _criterion(name, asked[framework])
            for framework in FRAMEWORKS
        }
        rows.append(row)
    return plain_table(pd.DataFrame(rows))


def _criterion(name: str, answer: Mapping[str, Any]) -> str:
    if "failed" in answer:
        return shortened(f"not tested: {answer['failed']}")
    if name == "python":
        return f"yes, {answer['version']}"
    if name == "infrastructure":
        return "none"
    wanted = DECIDED_BY[name]
    there = [feature for feature in wanted if answer["features"][feature]["has"]]
    if len(wanted) == 1:
        return "yes" if there else "no"
    return ", ".join(SAID[feature] for feature in there) or "neither"


def sync_table(asked: Asked, records: Sequence[Record]) -> Table:
    """Put synchronisation and architecture of 2021 beside what is offered and what ran here."""
    found = ran(records).set_index("system")
    rows = []
    for framework, then in read_surveys().then.items():
        for sync, before in (("sync", then.sync), ("async", then.asynchronous)):
            names = [name for name in SYSTEMS if name.startswith(f"{framework}/{sync}/")]
            rows += [
                {
                    "framework": words.framework(framework),
                    "updates": words.SYNC[sync],
                    "2021": before,
                    "today": _architecture(name),
                    "its own": _own(asked[framework], sync, name),
                    "runs here": _runs(found, name),
                    "mechanism": SYSTEMS[name].means,
                }
                for name in names
            ]
    return plain_table(pd.DataFrame(rows))


def _architecture(system: str) -> str:
    name = system.rpartition("/")[2]
    return words.ARCHITECTURES.get(name, name)


def _own(answer: Mapping[str, Any], sync: str, system: str) -> str:
    """Tell whether the framework brings it along, or it is made of the framework's parts here."""
    if "failed" in answer:
        return "not tested"
    made_here = system.startswith("pytorch/") and system.endswith("/parameter_server")
    return "yes" if answer["features"][sync]["has"] and not made_here else "no, built here"


def _runs(found: pd.DataFrame, system: str) -> str:
    if system not in found.index:
        return "no runs at hand"
    row = found.loc[system]
    said = f"{row['ok']} of {row['planned']} went well"
    return f"{said}; {shortened(row['reason'])}" if row["reason"] else said


def backend_table(asked: Asked) -> Table:
    """Put the libraries of 2021 beside what computes a convolution here."""
    rows = [
        {
            "framework": words.framework(framework),
            "2021": f"{then.version}: {then.backend}",
            "today": asked[framework].get("version", "not tested"),
            "a convolution by oneDNN": _passes(asked[framework]),
        }
        for framework, then in read_surveys().then.items()
    ]
    return plain_table(pd.DataFrame(rows))


def _passes(answer: Mapping[str, Any]) -> str:
    if "failed" in answer:
        return shortened(f"not tested: {answer['failed']}")
    return " and ".join(answer["features"]["onednn"]["passes"]) or "no"


def asked_table(asked: Asked) -> Table:
    """List what was asked of each framework, and whether it was there."""
    rows = [
        {
            "framework": words.framework(framework),
            "feature": feature.replace("_", " "),
            "asked for": answer["asked"],
            "there": "yes" if answer["has"] else "no",
        }
        for framework in FRAMEWORKS
        for feature, answer in asked[framework].get("features", {}).items()
    ]
    return plain_table(pd.DataFrame(rows), group_by="framework" if rows else None)


def historical_table() -> Table:
    """Tell where historical frameworks stand, each with the page that says so."""
    surveys = read_surveys()
    rows = [
        {
            "framework": name,
            "state": found.state,
            f"source, looked up on {surveys.looked_up}": ", ".join(
                filter(None, [found.source, found.also])
            ),
        }
        for name, found in surveys.historical.items()
    ]
    return plain_table(pd.DataFrame(rows))
