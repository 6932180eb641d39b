"""The verdicts on the published claims, from all records of the study at hand."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from horizont.analysis.claims import judge
from horizont.errors import UserError
from horizont.pipeline.paths import Paths, study_paths
from horizont.pipeline.planned import planned_records
from horizont.pipeline.published import proof_status
from horizont.pipeline.summary import PLAIN_WIDTH
from horizont.records import Record, read_json, write_json
from horizont.report.claimcheck import disagreements
from horizont.report.claims import claim_summary
from horizont.spec import read_study

#: The page of the claims among the executed notebooks.
PAGE = "claims"

#: Experiments by how close they come to the published cluster, the closest first.
NEAREST = ("cluster", "distributed")


def records_at_hand(paths: Paths | None = None) -> list[Record]:
    """Open the records of all planned runs that were made."""
    paths = paths or study_paths()
    study = read_study(paths.params)
    return [
        record
        for experiment in study.experiments
        for workload in study.workloads_of(experiment)
        for record in planned_records(study, experiment, workload, paths)[0]
    ]


def evidence_at_hand(paths: Paths | None = None) -> tuple[list[Record], dict[str, dict[str, str]]]:
    """Open the records of the study, and tell by workload what its proof says of each trainer."""
    paths = paths or study_paths()
    study = read_study(paths.params)
    proofs = {workload: proof_status(workload, paths) for workload in study.study}
    return records_at_hand(paths), proofs


def nearest_records(paths: Paths | None = None) -> dict[str, list[Record]]:
    """Open, for each workload, the records of the experiment nearest to the published set-ups."""
    paths = paths or study_paths()
    study = read_study(paths.params)
    found: dict[str, list[Record]] = {}
    for experiment in reversed(NEAREST):
        for workload in study.workloads_of(experiment):
            records = planned_records(study, experiment, workload, paths)[0]
            if records:
                found[workload] = records
    return {workload: found[workload] for workload in study.study if workload in found}


def judge_claims(paths: Paths | None = None) -> list[dict[str, Any]]:
    """Give a verdict on every published claim and keep them in ``reports/claims.json``."""
    paths = paths or study_paths()
    judged = judge(*evidence_at_hand(paths))
    paths.claims.parent.mkdir(parents=True, exist_ok=True)
    write_json(paths.claims, judged)
    return judged


def show_claims(paths: Paths) -> None:
    """Print the verdicts; those that cannot be tested here are counted only."""
    console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    judged = judge_claims(paths)
    tested = [claim for claim in judged if claim["verdict"] != "not testable here"]
    if tested:
        console.print(_table(tested))
    console.print(claim_summary(judged), soft_wrap=True)


def _table(judged: Sequence[dict[str, Any]]) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for column in ("claim", "what was claimed", "verdict", "note"):
        table.add_column(column, no_wrap=column in ("claim", "verdict"))
    for claim in judged:
        table.add_row(claim["id"], claim["claim"], claim["verdict"], claim["reason"])
    return table


def check_claims(paths: Paths) -> None:
    """Refuse a page of claims that says something else than the verdicts.

    Raises
    ------
    UserError
        With the first disagreement, or if there is no page or there are no verdicts.
    """
    page = paths.executed / f"{PAGE}.ipynb"
    for path in (page, paths.claims):
        if not path.exists():
            raise UserError("claims", str(path), "a file that `horizont notebook claims` wrote")
    names = {record.folder.name for record in records_at_hand(paths)}
    faults = disagreements(page, read_json(paths.claims), names)
    if faults:
        raise UserError(str(page), faults[0], "what reports/claims.json says")
