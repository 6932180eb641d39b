"""A study beside the reference: in the terminal, and for the chapter *Your run*."""

from __future__ import annotations

from collections.abc import Collection

from horizont.analysis.changes import compare_machines
from horizont.analysis.reproduction import Results, changed_verdicts, compare_with_reference
from horizont.errors import UserError
from horizont.reporting.reproduction import (
    MACHINES_TITLE,
    NO_VERDICT_CHANGES,
    NOTHING_COMPARABLE,
    NUMBERS,
    changed_facts,
    reproduction_rows,
    reproduction_summary,
)
from horizont.workflow.console import open_console, print_table
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.reference import open_reference, packed_experiments
from horizont.workflow.reported import own_results

#: Exit statuses of `horizont reproduce`.
NO_DIFFERENCE, DIFFERENT, NOT_COMPARABLE = 0, 1, 2


def both_results(
    experiments: Collection[str] = (), paths: Paths | None = None
) -> tuple[Results, Results]:
    """Open the records of the reference and of the study, of all or of some experiments."""
    paths = paths or study_paths()
    reference, own = open_reference(paths), own_results(paths)
    if not experiments:
        return reference, own
    return _selected(reference, experiments), _selected(own, experiments)


def _selected(results: Results, experiments: Collection[str]) -> Results:
    records = [record for record in results.records if record.run.experiment in experiments]
    return results._replace(records=records)


def show_reproduction(paths: Paths, experiments: Collection[str] = ()) -> int:
    """Print what was expected and what was obtained, and the verdicts that would change.

    Returns 0 if no quantity is faster or slower and no verdict changes, 1 otherwise, 2 if the
    reference has no runs with the settings of the study.
    """
    known = packed_experiments(paths)
    for name in experiments:
        if name not in known:
            raise UserError("experiment", name, known)
    console = open_console()
    with console.status("comparing with the reference, which takes about a minute"):
        reference, own = both_results(experiments, paths)
        comparison = compare_with_reference(reference.records, own.records)
        changes = comparison if comparison.empty else changed_verdicts(reference, own)
    if comparison.empty:
        console.print(NOTHING_COMPARABLE)
        return NOT_COMPARABLE
    machines = changed_facts(compare_machines(reference.records, own.records))
    if len(machines):
        print_table(console, machines, MACHINES_TITLE, wrapped=machines.columns)
    cells = reproduction_rows(comparison)
    print_table(console, cells, "Expected and obtained", numbers=NUMBERS, group_by="work")
    if changes.empty:
        console.print(NO_VERDICT_CHANGES)
    else:
        print_table(console, changes, "Changed verdicts", wrapped=changes.columns)
    console.print(reproduction_summary(comparison).text)
    is_different = comparison["outcome"].isin(["faster", "slower"]).any() or len(changes) > 0
    return DIFFERENT if is_different else NO_DIFFERENCE
