"""Tables of pairwise verdicts, of drill-downs and of recommendations."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from horizont.analysis.advice import Question, Recommendation
from horizont.analysis.drilldown import Drilldown
from horizont.analysis.verdicts import self_comparison, stability
from horizont.records.record import Record
from horizont.reporting import labels
from horizont.reporting.output import Message, Prose, Stack, TableOutput, Verdict
from horizont.reporting.registry import table
from horizont.reporting.tables import format_interval, format_number, format_table, text_table
from horizont.statistics.comparison import ALPHA, MARGIN, MIN_BLOCKS
from horizont.wording import counted, shorten

_INDENT = {"step": 0, "kind": 1, "phase": 2, "class": 3, "operator": 4}


@table("verdicts", title="Verdicts")
def verdict_table(verdicts: pd.DataFrame) -> TableOutput:
    """Build the table of pairwise verdicts, without columns that have no value."""
    names = labels.short_labels([*verdicts["a"], *verdicts["b"]]) if len(verdicts) else {}
    rows = []
    for row in verdicts.to_dict("records"):
        disturbed = f"{counted(row['disturbed'], 'run')} disturbed" if row["disturbed"] else ""
        rows.append(
            {
                "A": names[row["a"]],
                "B": names[row["b"]],
                "verdict": row["outcome"],
                "A / B": format_number(row["ratio"], ".3f"),
                "interval": format_interval(
                    row["ratio_low"], row["ratio_high"], ".3f", row["level"]
                ),
                "blocks": f"{row['blocks']} of {row['planned']}",
                "detectable ratio": format_number(row["minimum_detectable_ratio"], ".2f"),
                "more blocks": format_number(row["additional_blocks"], ".0f"),
                "note": "; ".join(filter(None, [shorten(row["reason"]), disturbed])),
            }
        )
    frame = pd.DataFrame(rows)
    numbers = {"A / B", "interval", "blocks", "detectable ratio", "more blocks"}
    return text_table(frame.loc[:, ~frame.isin(["", "–"]).all()], numbers)


@table("stability", title="Stability of the runs")
def stability_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of spread, drift and disturbances of the runs of each system."""
    columns = ["system", "ok", "spread", "drift", "drift_p", "disturbed", "warnings"]
    return format_table(stability(records), columns)


@table("self_comparison")
def self_comparison_sentence(
    records: Sequence[Record], margin: float = MARGIN
) -> Verdict | Message:
    """Build the sentence on the verdicts on systems and themselves."""
    found = self_comparison(records, margin)
    if not found.pairs:
        least = 2 * MIN_BLOCKS
        return Message(f"No system has {least} successful runs, so none is compared with itself.")
    sizes = [size for size in found.group_sizes if size]
    share = found.share
    interval = format_interval(share.low, share.high, ".1%", share.level)
    return Verdict(
        f"{found.false_verdicts} of {found.pairs} verdicts on a system and itself are false: "
        f"{share.value:.1%}, interval {interval}; the tests allow {ALPHA:.0%}. "
        f"Systems with enough runs: {len(sizes)} of {len(found.group_sizes)}, "
        f"in groups of {' or '.join(map(str, sorted(set(sizes))))} runs.",
        not found.exceeds_alpha,
    )


@table("drilldowns", title="All differences")
def drilldown_table(drilldowns: Sequence[Drilldown]) -> TableOutput:
    """Build the table of the parts of each difference, grouped by pair."""
    rows = []
    for drilldown in drilldowns:
        a, b = map(labels.system_label, (drilldown.pair.a, drilldown.pair.b))
        reason = drilldown.stop_reason and f" {labels.capitalise(drilldown.stop_reason)}."
        pair = {"pair": f"A: {a}. B: {b}.{reason}"}
        rows += [pair | part for part in _drilldown_rows(drilldown)] or [{**pair, "part": "–"}]
    numbers = {"A, ms", "B, ms", "B - A, ms", "interval", "fraction"}
    return text_table(pd.DataFrame(rows).fillna("–"), numbers, group_by="pair")


def _drilldown_rows(drilldown: Drilldown) -> Iterator[dict[str, str]]:
    for row in drilldown.table().to_dict("records"):
        fraction = format_number(row["fraction"] if drilldown.is_explained else None, ".0%")
        yield {
            "part": "\N{NO-BREAK SPACE}" * 4 * _INDENT[row["level"]] + row["part"],
            "A, ms": format_number(row["a_s"] * 1e3, ".2f"),
            "B, ms": format_number(row["b_s"] * 1e3, ".2f"),
            "B - A, ms": format_number(row["difference_s"] * 1e3, "+.2f"),
            "interval": format_interval(row["low_s"] * 1e3, row["high_s"] * 1e3, "+.2f"),
            "fraction": fraction,
            "dominant": "yes" if row["is_dominant"] else "",
        }


@table("recommendation")
def recommendation_table(recommendation: Recommendation) -> TableOutput | Message:
    """Build the table of the ranked systems; its caption names the runs that it is based on."""
    rows = recommendation_rows(recommendation)
    if not rows:
        return Message(" ".join(recommendation.caveats))
    # Each table of a page may be from other records, so the page has no common source of values.
    title = f"Systems by {recommendation.unit}, from {recommendation.basis}"
    return replace(text_table(rows, {recommendation.unit, "interval", "runs"}), title=title)


def recommendation_rows(recommendation: Recommendation) -> list[dict[str, str]]:
    """Format the ranked systems, the best first, without columns that are empty."""
    rows = [
        {
            "system": labels.system_label(str(row["system"])),
            recommendation.unit: _format_value(row["value"]),
            "interval": _format_interval(row),
            recommendation.comparison: str(row["versus_best"]),
            "explanation": shorten(row["explanation"]),
            "runs": f"{row['runs']:.0f}",
        }
        for row in recommendation.ranking.to_dict("records")
    ]
    shown = {name for row in rows for name, text in row.items() if text not in ("", "–")}
    return [{name: text for name, text in row.items() if name in shown} for row in rows]


@table("recommendation_sentence")
def recommendation_sentence(recommendation: Recommendation) -> Verdict:
    """Build the sentence on the best system, its evidence and the caveats."""
    if recommendation.ranking.empty:
        return Verdict(" ".join(recommendation.caveats), False)
    best = recommendation.ranking.iloc[0]
    value = f"{_format_value(best['value'])} {recommendation.unit}"
    name = labels.system_label(str(best["system"]))
    sentence = f"{name} ranks first, with {value} ({recommendation.basis})."
    is_good = recommendation.is_comparable
    return Verdict(" ".join([sentence, *recommendation.caveats]), is_good)


@table("recommend_command")
def recommend_command(question: Question) -> Prose:
    """Build the sentence with the command that answers the same question."""
    given = {
        "network": question.network,
        "weights": f"{question.weights:g}" if question.weights > 0 else "",
        "workers": question.workers,
        "threads": question.threads,
        "link": "" if question.rate_mbit is None else f"{question.rate_mbit:g}",
        "objective": question.objective,
    }
    words = [f"--{name} {shlex.quote(str(value))}" for name, value in given.items() if value]
    return Prose(f"The same in a terminal: `horizont recommend {' '.join(words)}`.")


@table("recommendations")
def recommendation_tables(recommendations: Mapping[str, Recommendation]) -> Stack:
    """Build the tables for several objectives, each below its name."""
    outputs: list[Message | TableOutput] = []
    for objective, recommendation in recommendations.items():
        outputs += [Message(f"Objective: {objective}."), recommendation_table(recommendation)]
    return Stack(tuple(outputs))


def _format_value(value: float) -> str:
    return format_number(value, ",.0f" if value >= 100 or value == int(value) else ".2f")


def _format_interval(row: Mapping[Any, Any]) -> str:
    if pd.isna(row["low"]) or pd.isna(row["high"]):
        return "–"
    return f"{_format_value(row['low'])} to {_format_value(row['high'])}"
