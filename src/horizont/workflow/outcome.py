"""What `run` and `verify` print at their end: the result, its cause and the next command."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from horizont.analysis.faults import OUTCOMES, fault_outcomes
from horizont.analysis.runs import CertificateStatus, by_workload
from horizont.config.experiment import Kind
from horizont.config.study import read_study
from horizont.equivalence.certificate import EquivalenceCertificate
from horizont.records.record import Record
from horizont.reporting import labels
from horizont.reporting.figures.equivalence import check_table
from horizont.reporting.findings import finding
from horizont.reporting.output import TableOutput
from horizont.reporting.overview import fault_table, speed_table, sweep_table
from horizont.wording import DISTURBED, counted, shorten
from horizont.workflow.console import open_console, print_table, program
from horizont.workflow.measure import find_planned_records
from horizont.workflow.paths import Paths
from horizont.workflow.publish import certificate_status
from horizont.workflow.results import MAX_LINES, TABLE_FRAME_LINES, failure_line

_NUMBERS = {"examples/s", "interval", "of best", "runs", "steps", "detected, s", *OUTCOMES}
#: For the page of the experiment; the notes say why a system is not comparable.
_OMITTED = ["runs", "comparable", "first error", "survivors", "weights on"]


def show_outcome(experiment: str, records: Sequence[Record], paths: Paths) -> None:
    """Print what the runs of an experiment show, in at most `MAX_LINES`."""
    console, study = open_console(), read_study(paths.params)
    groups = [(workload, own) for (_, workload), own in by_workload(records).items()]
    closing = _closing_lines(experiment, records, paths)
    # A workload has the frame of its table, what was found, and perhaps "more rows".
    rows = (MAX_LINES - len(closing)) // max(1, len(groups)) - TABLE_FRAME_LINES - 3
    kind = study.experiment(experiment).kind
    for workload, own in groups:
        if all(record.result.status == "skipped" for record in own):
            continue
        certificate = certificate_status(workload, paths)
        cells = _cells(_table_of(kind, own, certificate), "system" if kind == "faults" else "point")
        if kind == "faults" and len(cells) > rows:
            cells = _fault_counts(own)
        shown = cells[: max(1, rows)]
        print_table(console, shown, workload, numbers=_NUMBERS, cut="note")
        if len(shown) < len(cells):
            console.print(f"and {len(cells) - len(shown)} more rows", highlight=False)
        if found := finding(kind, own, certificate):
            console.print(found, soft_wrap=True, highlight=False)
    for line in closing:
        console.print(line, soft_wrap=True, highlight=False)


def _table_of(kind: Kind, records: Sequence[Record], certificate: CertificateStatus) -> TableOutput:
    if kind == "faults":
        return fault_table(records)
    return (speed_table if kind == "training" else sweep_table)(records, certificate)


def _cells(output: TableOutput, heading: str) -> pd.DataFrame:
    """Return the cells of a table for a terminal; its groups become the first column."""
    cells = output.cells.drop(columns=_OMITTED, errors="ignore")
    if output.groups:
        cells.insert(0, heading, [output.groups.get(row, "") for row in range(len(cells))])
    return cells


def _fault_counts(records: Sequence[Record]) -> pd.DataFrame:
    """Count the runs of each system by their outcomes."""
    # Without any report there is no column of outcomes.
    outcomes = fault_outcomes(records).reindex(columns=["system", "outcome"])
    counts = pd.crosstab(outcomes["system"], outcomes["outcome"])
    counts = counts.reindex(index=outcomes["system"].unique(), columns=OUTCOMES, fill_value=0)
    counts.index = pd.Index(map(labels.system_label, counts.index), name="system")
    return counts.reset_index().astype(str)


def _closing_lines(experiment: str, records: Sequence[Record], paths: Paths) -> list[str]:
    lines = []
    if failed := [record for record in records if record.failed_unexpectedly]:
        lines.append(failure_line(failed))
    if skipped := [record for record in records if record.result.status == "skipped"]:
        reason = shorten(skipped[0].result.reason)
        lines.append(f"{len(skipped)} of {counted(len(records), 'run')} skipped: {reason}")
    succeeded = [record for record in records if record.ok]
    if disturbed := sum(record.result.disturbed for record in succeeded):
        lines.append(f"{disturbed} of {len(succeeded)} runs were {DISTURBED}")
    if len(skipped) == len(records):
        return [*lines, f"next: {program()} config check, which counts what would be skipped here"]
    if not any(record.is_final for record in records):
        failed_one = next(record for record in records if record.result.status != "skipped")
        logs = failed_one.path("logs")
        return [*lines, f"next: {program()} run {experiment}, without the cause; see {logs}"]
    is_timed = not any(record.run.fault for record in records)
    if is_timed and not any(record.run.block for record in records):
        lines.append(f"one block: no interval; `blocks: 4` in experiments.{experiment} gives one")
    workloads = dict.fromkeys(record.run.workload_name for record in records)
    if unverified := [name for name in workloads if not paths.certificate(name).exists()]:
        lines.append(
            f"next: {program()} verify {unverified[0]}, for a certificate that systems are equal"
        )
    else:
        lines.append(f"next: {program()} experiment {experiment}, for its page")
    return lines


def show_certificate(
    certificate: EquivalenceCertificate, paths: Paths, *, is_mutated: bool
) -> None:
    """Print the verdict of the comparator, its checks, and what follows from them."""
    console = open_console()
    console.print(certificate.verdict, soft_wrap=True, highlight=False)
    cells = check_table(certificate.rows).cells
    headings = list(cells.columns)
    print_table(console, cells, certificate.workload, numbers=headings[1:], wrapped=headings)
    if name := certificate.differing_framework:
        label = labels.framework_label(name)
        console.print(f"{label} differs from all others, which agree", highlight=False)
    for name, reason in certificate.missing.items():
        label = labels.framework_label(name)
        console.print(f"{label} was not compared: {shorten(reason)}", highlight=False)
    next_step = _step_after_verification(certificate, paths, is_mutated=is_mutated)
    console.print(f"next: {next_step}", soft_wrap=True, highlight=False)


def _step_after_verification(
    certificate: EquivalenceCertificate, paths: Paths, *, is_mutated: bool
) -> str:
    workload = certificate.workload
    if is_mutated:
        return f"{program()} verify {workload}, without the defect; no certificate was written"
    if not certificate.ok:
        return f"{program()} notebook equivalence -p workload={workload}, for all distances"
    study = read_study(paths.params)
    experiments = study.experiments_on(workload)
    for name in experiments:
        _, missing = find_planned_records(study, name, workload, paths)
        if missing:
            return f"{program()} run {name} {workload}, which has {missing} runs without a record"
    if experiments:
        return f"{program()} experiment {experiments[0]}, for its page"
    text = f"add {workload} to the workloads of an experiment in params.yaml"
    if workload not in study.equivalence.workloads:
        dataset = study.workload(workload).dataset
        text += f", and to equivalence.workloads, with its data set {dataset} in datasets"
    return text
