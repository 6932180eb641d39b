"""The results of the study in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from horizont.analysis.advice import OBJECTIVES, Question, Recommendation, recommend
from horizont.analysis.claims.costs import with_repetition_costs
from horizont.analysis.claims.judge import claim_verdicts
from horizont.analysis.claims.observations import EVIDENCE_LEVELS
from horizont.analysis.claims.predictions import model_predictions
from horizont.config.study import read_study
from horizont.errors import UserError
from horizont.networks.catalogue import NETWORKS
from horizont.records.files import read_json, write_json
from horizont.records.record import Record
from horizont.reporting.answer import answer_cells, cause_sentence, legend
from horizont.reporting.claims import FOLDER, REFERENCE, check_page, claim_counts
from horizont.reporting.verdicts import recommendation_rows
from horizont.wording import counted, shorten
from horizont.workflow.console import open_console, print_table, program
from horizont.workflow.measure import find_planned_records
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.reference import open_reference, packed_experiments
from horizont.workflow.reported import (
    ReportedStudy,
    open_own_study,
    open_reported_study,
    own_results,
)

#: Results fit a screen; a table has a blank line, the headings and a rule, and a blank line.
MAX_LINES = 25
TABLE_FRAME_LINES = 4

#: In a terminal with fewer columns the results may take more lines, rather than lose their ends.
LEAST_WIDTH = 80


def show_summary(paths: Paths) -> int:
    """Print the answer in at most 25 lines; return 1 if a run failed or is missing."""
    console = open_console()
    study = read_study(paths.params)
    found = [
        find_planned_records(study, experiment, workload, paths)
        for workload in study.equivalence.workloads
        for experiment in study.experiments_on(workload)
    ]
    failed = [record for records, _ in found for record in records if record.failed_unexpectedly]
    missing = sum(count for _, count in found)
    answered = open_own_study(paths).answers()
    closing = []
    if marks := legend(answered):
        closing.append(f"Ratio to the next; {marks}. AR: all-reduce, PS: parameter server.")
    if failed:
        closing.append(failure_line(failed))
    if missing:
        closing.append(f"without a record yet: {counted(missing, 'run')}")
    closing.append(_next_step(paths, is_complete=not failed and not missing))
    if answered:
        cells = answer_cells(answered)
        places = MAX_LINES - len(closing) - TABLE_FRAME_LINES
        print_table(console, cells[: places // 2])
        for answer in answered[: places // 2]:
            line = f"{answer.workload}: {cause_sentence(answer)}"
            # There is no room for a second line of each sentence.
            is_long = 3 * len(answered) > places and console.width >= LEAST_WIDTH
            console.print(line, no_wrap=is_long, overflow="ellipsis", highlight=False)
    for line in closing:
        console.print(line, soft_wrap=True, highlight=False)
    return int(bool(failed or missing))


def failure_line(failed: Sequence[Record]) -> str:
    """Return the reason of the first failed run, and the number of others."""
    others = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    return f"failed: {failed[0].folder.name}: {shorten(failed[0].result.reason)}{others}"


def _next_step(paths: Paths, *, is_complete: bool) -> str:
    report = paths.book / "index.html"
    if not is_complete:
        return f"next: {program()} repro"
    return f"The report: {report}" if report.exists() else f"next: {program()} book"


def judge_claims(paths: Paths | None = None) -> list[dict[str, Any]]:
    """Judge every published claim, and write the verdicts to ``reports/claims.json``.

    Claims that the reference cannot test, and this folder's study can, are judged by that: each by
    one of them. Which one is the ``study`` of a claim, `REFERENCE` or `FOLDER`.
    """
    paths = paths or study_paths()
    reported = open_reported_study(paths)
    claims = _judge(reported)
    if reported.is_reference:
        own = _judge(open_own_study(paths))
        pairs = zip(claims, own, strict=True)
        claims = [
            one if _is_tested(one) or not _is_tested(other) else other for one, other in pairs
        ]
    paths.claims.parent.mkdir(parents=True, exist_ok=True)
    write_json(paths.claims, claims)
    return claims


def _is_tested(claim: Mapping[str, Any]) -> bool:
    return bool(claim["verdict"] != "not testable")


def _judge(reported: ReportedStudy) -> list[dict[str, Any]]:
    records, status = reported.results
    verdicts = claim_verdicts(records, status, predictions=model_predictions(records, status))
    study = REFERENCE if reported.is_reference else FOLDER
    return [{**claim, "study": study} for claim in with_repetition_costs(verdicts, records)]


def show_claims(paths: Paths) -> None:
    """Print the verdicts; claims that are not testable are only counted."""
    console = open_console()
    with console.status("judging the claims, which takes about a minute"):
        claims = judge_claims(paths)
    tested = [claim for claim in claims if claim["verdict"] != "not testable"]
    if tested:
        columns = {"id": "claim", "claim": "statement", "verdict": "verdict"}
        columns |= {"evidence": "evidence", "reason": "note"}
        cells = pd.DataFrame(tested)[list(columns)].rename(columns=columns)
        print_table(console, cells, wrapped=("statement", "note"))
    console.print(claim_counts(claims).text, soft_wrap=True)
    for name, text in EVIDENCE_LEVELS.items():
        console.print(f"Evidence {name}: {text}.", soft_wrap=True)


def check_claims(paths: Paths) -> None:
    """Check that the page of claims exists and agrees with the verdicts."""
    page = paths.executed_notebooks / "claims.ipynb"
    for path in (page, paths.claims):
        if not path.exists():
            raise UserError("claims", str(path), "a file that `horizont notebook claims` wrote")
    studies = [open_own_study(paths)] if paths.all_records.exists() else []
    if packed_experiments(paths):
        studies.append(open_reported_study(paths))
    names = {
        REFERENCE if study.is_reference else FOLDER: {one.folder.name for one in study.records}
        for study in studies
    }
    if disagreements := check_page(page, read_json(paths.claims), names):
        raise UserError(str(page), disagreements[0], "the verdicts of reports/claims.json")


def recommendation_for(question: Question, paths: Paths | None = None) -> Recommendation:
    """Recommend a system from the records of this folder's study or else of the reference."""
    paths = paths or study_paths()
    own = own_results(paths)
    recommendation = recommend(own.records, question, own.certificates)
    if len(recommendation.ranking) or not packed_experiments(paths):
        return _with_source(recommendation, "this folder")
    reference = open_reference(paths)
    recommendation = recommend(reference.records, question, reference.certificates)
    return _with_source(recommendation, str(paths.reference.relative_to(paths.root)))


def _with_source(recommendation: Recommendation, where: str) -> Recommendation:
    """Add where the records are: the two studies have runs of the same names."""
    return replace(recommendation, basis=f"{recommendation.basis}; records in {where}")


def recommendations_by_objective(question: Question) -> dict[str, Recommendation]:
    """Recommend a system for each of the other objectives."""
    return {
        objective: recommendation_for(replace(question, objective=objective))
        for objective in OBJECTIVES
        if objective != question.objective
    }


def show_recommendation(paths: Paths, **question: Any) -> int:
    """Print the ranking, its evidence and its limits; return 1 if no records cover the question.

    The question is given by its fields.
    """
    network = question.get("network")
    if network and network not in NETWORKS:
        raise UserError("--network", network, sorted(NETWORKS))
    console = open_console()
    try:
        asked = Question(**question)
    except UserError as error:
        raise UserError(f"--{error.field}", error.value, error.allowed) from None
    recommendation = recommendation_for(asked, paths)
    rows = recommendation_rows(recommendation)
    if rows:
        cells = pd.DataFrame(rows)
        print_table(console, cells, wrapped=cells.columns)
        console.print(f"From {recommendation.basis}.", soft_wrap=True)
    for caveat in recommendation.caveats:
        console.print(caveat, soft_wrap=True)
    return int(not rows)
