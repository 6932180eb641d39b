"""The results of the study in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from horizont.analysis import ProofStatus, incidents, printable, summary
from horizont.pipeline.paths import Paths
from horizont.pipeline.planned import planned_records
from horizont.pipeline.published import proof_status
from horizont.records import Record
from horizont.report import words
from horizont.spec import Experiment, read_study

#: Columns of text where no terminal says how many it has.
PLAIN_WIDTH = 120


def show_summary(paths: Paths) -> int:
    """Print a table for each experiment and workload, and where the report is.

    Returns
    -------
    int
        1 if a run failed or is missing, else 0.
    """
    console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    study = read_study(paths.params)
    troubles = 0
    for workload in study.study:
        proof = proof_status(workload, paths)
        for experiment in study.experiments_on(workload):
            records, missing = planned_records(study, experiment, workload, paths)
            failed = [record for record in records if record.troubled]
            troubles += len(failed) + missing
            if records:
                title = f"{workload}, {experiment}"
                console.print(_table(title, _rows(study.experiment(experiment), records, proof)))
            _name_troubles(console, failed, missing)
        for reason in sorted(set(proof.values()) - {"proven"}):
            console.print(reason, soft_wrap=True)
    report = paths.book / "index.html"
    if report.exists():
        console.print(f"The report: {report}", soft_wrap=True)
    return int(troubles > 0)


def _rows(experiment: Experiment, records: list[Record], proof: ProofStatus) -> pd.DataFrame:
    if experiment.vary:
        return _by_point(records, proof)
    if experiment.is_timed:
        return printable(summary(records, proof))
    found = incidents(records)
    columns = ["system", "incident", "outcome", "how"]
    return found.reindex(columns=columns).fillna("–").rename(columns={"how": "note"})


def _by_point(records: list[Record], proof: ProofStatus) -> pd.DataFrame:
    """Sum up what was varied point by point: so many workers times so many examples."""
    points: dict[str, list[Record]] = {}
    for record in records:
        topology = record.run.topology
        point = f"{topology.workers} x {record.run.local_batch}"
        point += f", {topology.servers} servers" if topology.servers > 1 else ""
        point += "" if topology.link.is_free else f", {words.link(topology.link)}"
        given, framework = record.run.input, record.run.system.framework
        point += f", {given.title(framework)}" if given.from_files else ""
        points.setdefault(point, []).append(record)
    tables = [printable(summary(own, proof)).assign(point=point) for point, own in points.items()]
    table = pd.concat(tables)
    table["system"] += ": " + table.pop("point")
    return table


def _name_troubles(console: Console, failed: Sequence[Record], missing: int) -> None:
    for record in failed:
        console.print(f"failed: {record.folder.name}: {record.result.reason}", soft_wrap=True)
    if missing:
        console.print(f"{missing} runs are not measured yet")


def _table(title: str, rows: pd.DataFrame) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    for column in rows.columns:
        text = column in ("system", "incident", "outcome", "note")
        table.add_column(str(column), justify="left" if text else "right", no_wrap=column != "note")
    for _, row in rows.iterrows():
        table.add_row(*map(str, row))
    return table
