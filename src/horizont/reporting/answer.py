"""The first screen: the best system of each workload by setting, as a table and in the terminal."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import copysign, isnan

import pandas as pd

from horizont.analysis.answer import COLUMNS, ONE, SEVERAL, SURVIVES, Answer, Cell, Verdict
from horizont.analysis.drilldown import LOCAL, Difference, Drilldown
from horizont.reporting import labels
from horizont.reporting.output import TABLE_MIME, Bundle, Message
from horizont.reporting.registry import table
from horizont.reporting.tables import format_ms, format_number
from horizont.statistics.comparison import MARGIN
from horizont.wording import counted

#: Verdicts as shown, each with a mark of its own shape.
_VERDICT_TEXTS: dict[Verdict, str] = {
    "clear": "● clear",
    "equal": f"= equal within {MARGIN:.0%}",
    "not settled": "○ not settled",
    "not comparable": "× not comparable",
}

#: Architectures within a cell; systems are synchronous if not async.
_SHORT_ARCHITECTURES = {
    "allreduce": "all\N{NON-BREAKING HYPHEN}reduce",
    "mpi": "MPI",
    "parameter_server": "PS",
}


@dataclass(frozen=True)
class AnswerTable:
    """The table of answers: per workload the cause and a row of cells; on a phone a card."""

    answers: tuple[Answer, ...]

    def html(self) -> str:
        """Return the table as HTML."""
        head = "".join(f'<th class="hz-left">{name}</th>' for name in COLUMNS)
        body = "\n".join(row for answer in self.answers for row in _html_rows(answer))
        head = f"<thead><tr>{head}</tr></thead>"
        return f'<table class="hz-answer">{head}\n<tbody>{body}</tbody></table>'

    def _repr_mimebundle_(self, **_: object) -> Bundle:
        texts = [f"{answer.workload}: {cause_sentence(answer)}" for answer in self.answers]
        cells = answer_cells(self.answers).to_string(index=False)
        return {
            "text/html": f'<div class="hz-table">{self.html()}</div>',
            "text/plain": "\n".join([cells, *texts]),
            TABLE_MIME: {"measured": True, "title": "The best system by workload and setting"},
        }


@table("answer-headline")
def headline(answers: Sequence[Answer]) -> Message:
    """Count the workloads on which a system is clearly the fastest, alone and with workers."""
    found = []
    for column, setting in ((ONE, "as one process"), (SEVERAL, "with several workers")):
        cells = [answer.cells[column] for answer in answers if answer.cells[column].verdict]
        if leads := clear_leads(cells, short_system_label, "on", "workload"):
            found.append(f"{setting}, {leads}")
        elif cells:
            found.append(f"{setting}, no system is clearly the fastest on any workload")
    return Message(f"{labels.capitalise('; '.join(found))}." if found else "No systems compete.")


def clear_leads(
    cells: Sequence[Cell], label: Callable[[str], str], preposition: str, unit: str
) -> str:
    """Count in how many cells each system is clearly the fastest; empty if none is in any."""
    clear = Counter(cell.winner for cell in cells if cell.verdict == "clear")
    if not clear:
        return ""
    (first, number), *others = clear.most_common()
    of_all = f"{number} of {counted(len(cells), unit)}"
    lead = f"{label(first)} is clearly the fastest {preposition} {of_all}"
    return ", ".join([lead, *(f"{label(name)} {preposition} {count}" for name, count in others)])


@table("answer")
def answer_table(answers: Sequence[Answer]) -> AnswerTable | Message:
    """Build the table of the best systems, or the sentence that nothing was measured."""
    if not answers:
        return Message("Nothing was measured yet.")
    return AnswerTable(tuple(answers))


@table(
    "answer-here",
    title="On this machine",
    text="The same from the records of this folder's own study, with the settings of its "
    "`params.yaml`. Runs of different machines are never mixed.",
)
def own_answer_table(answers: Sequence[Answer]) -> AnswerTable | Message:
    """Build the table of the best systems of the study beside the reference."""
    return answer_table(answers)


def answer_cells(answers: Sequence[Answer]) -> pd.DataFrame:
    """Format the answers for a terminal: winner, lead and the mark of the verdict."""
    rows = [
        {"workload": answer.workload} | {name: _line(answer.cells[name]) for name in COLUMNS}
        for answer in answers
    ]
    return pd.DataFrame(rows).rename(columns={SURVIVES: "survives"})


def cause_sentence(answer: Answer) -> str:
    """Return in one sentence why the winner leads: of several workers, or else of one process."""
    drilldown = answer.cause
    if drilldown is None or drilldown.timed is None:
        verdicts = {answer.cells[name].verdict for name in (ONE, SEVERAL) if name in answer.cells}
        if verdicts & {"equal", "not settled"}:
            return "No lead in speed is clear, so there is none to explain."
        return "No systems were compared by speed."
    pair, timed = drilldown.pair, drilldown.timed
    a, b = labels.short_labels([pair.a, pair.b]).values()
    slower, faster = (b, a) if timed.difference_s > 0 else (a, b)
    more = format_ms(abs(timed.difference_s))
    if not isnan(timed.low_s):
        sign = copysign(1, timed.difference_s)
        low_s, high_s = sorted((sign * timed.low_s, sign * timed.high_s))
        more += f" ({format_ms(low_s).removesuffix(' ms')} to {format_ms(high_s)})"
    setting = "As one process" if pair.records_a[0].run.system.is_local else "With several workers"
    longer = f"{setting}, a step of {slower} takes {more} longer than of {faster}"
    if drilldown.step is None or not drilldown.path:
        return f"{longer}; why is unknown: {drilldown.stop_reason}."
    return f"{longer}; {_largest_part(drilldown, drilldown.step)}."


def _largest_part(drilldown: Drilldown, step: Difference) -> str:
    """Return which part of an instrumented step is longer, and by how much of it.

    Timed steps are not divided into parts, and instrumented ones may differ by another time.
    """
    # An operator that only one system has is no difference between operators.
    *_, cause = (part for part in drilldown.path if not isnan(part.a_s + part.b_s))
    whole, part = (format_ms(abs(each.difference_s)) for each in (step, cause))
    text = f"an instrumented one {whole}"
    fraction = cause.difference_s / step.difference_s
    location = labels.cause_label(cause.level, cause.part)
    if cause.part == LOCAL and drilldown.pair.records_a[0].run.system.is_local:
        return f"{text}: {drilldown.stop_reason}"  # its own computation is all of the step
    if fraction > 1:
        return f"{text}, and {location} alone {part}"
    return f"{text}, of which {part} ({fraction:.0%}) {location}"


def legend(answers: Sequence[Answer]) -> str:
    """Return the meaning of the marks that occur."""
    used = {cell.verdict for answer in answers for cell in answer.cells.values()}
    return ", ".join(text for verdict, text in _VERDICT_TEXTS.items() if verdict in used)


def short_system_label(system: str) -> str:
    """Return a system within a cell: `<framework> all-reduce`, `<framework> async PS`."""
    framework, sync, *architecture = system.split("/")
    words = [sync] if sync == "async" else []
    words += [_SHORT_ARCHITECTURES[name] for name in architecture]
    return " ".join([labels.framework_label(framework), *words])


def _survivors(cell: Cell) -> str:
    return f"{len(cell.survivors) or 'none'} of {cell.tested}"


def _line(cell: Cell) -> str:
    """Format a cell on one line; survivors are only counted."""
    if cell.tested:
        return _survivors(cell)
    lead = (
        f"{_VERDICT_TEXTS[cell.verdict][0]} {format_number(cell.ratio, '.2f')}"
        if cell.verdict
        else ""
    )
    if not cell.winner:
        return cell.note
    winner = short_system_label(cell.winner).replace(_SHORT_ARCHITECTURES["allreduce"], "AR")
    return " ".join(filter(None, [lead, winner, f"({cell.note})" if cell.note else ""]))


def _html_rows(answer: Answer) -> Iterator[str]:
    name = html.escape(labels.workload_label_from_name(answer.workload))
    text = f"<strong>{name}.</strong> {html.escape(cause_sentence(answer))}"
    yield f'<tr class="hz-cause"><td class="hz-left" colspan="{len(COLUMNS)}">{text}</td></tr>'
    cells = ""
    for column in COLUMNS:
        lines = "<br/>".join(_html_lines(answer.cells[column]))
        cells += f'<td class="hz-left" data-column="{column}">{lines}</td>'
    yield f"<tr>{cells}</tr>"


def _html_lines(cell: Cell) -> Iterator[str]:
    if cell.tested:
        yield f"<strong>{_survivors(cell)}</strong>"
        yield from (html.escape(short_system_label(name)) for name in cell.survivors)
        return
    if cell.winner:
        yield f"<strong>{html.escape(short_system_label(cell.winner))}</strong>"
    if cell.verdict:
        interval = "" if isnan(cell.low) else f" ({cell.low:.2f} to {cell.high:.2f})"
        if not isnan(cell.ratio):
            yield f"{cell.ratio:.2f}{interval}"
        yield f"next: {html.escape(short_system_label(cell.runner_up))}"
        kind = cell.verdict.replace(" ", "-")
        yield f'<span class="hz-{kind}">{_VERDICT_TEXTS[cell.verdict]}</span>'
    else:
        yield f'<span class="hz-muted">{html.escape(cell.note)}</span>'
