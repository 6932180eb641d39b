"""The tables and figures of the verdicts: from drill-downs to what readers see."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from horizont.analysis.advice import Recommendation
from horizont.analysis.drilldown import LOCAL, Difference, Drilldown
from horizont.analysis.steps import GROUP_SEPARATOR
from horizont.reporting import figures, labels
from horizont.reporting.explanations import short_names
from horizont.reporting.figures.waterfall import Waterfall, WaterfallStep
from horizont.reporting.findings import Message, verdict
from horizont.reporting.page import FigureOutput
from horizont.reporting.tables import Table, shorten, text_table

#: Classes of operators that a figure shows; the others are one row.
MAX_OPERATOR_CLASSES = 8

#: A stride of less than this share of a step would be thinner than a line.
MIN_VISIBLE_FRACTION = 0.001

_INDENT = {"step": 0, "kind": 1, "phase": 2, "class": 3, "operator": 4}


def verdict_table(verdicts: pd.DataFrame) -> Table:
    """Write the verdicts, a row a pair; a column without any value is left out.

    Parameters
    ----------
    verdicts
        As of `horizont.analysis.verdicts`.
    """
    names = short_names([*verdicts["a"], *verdicts["b"]]) if len(verdicts) else {}
    frame = pd.DataFrame([_verdict_row(row, names) for _, row in verdicts.iterrows()])
    said = [name for name in frame if not frame[name].isin(["", "–"]).all()]
    numbers = {"A / B", "interval", "blocks", "would find", "more blocks"}
    return text_table(frame[said], numbers & set(said))


def _verdict_row(row: pd.Series, names: Mapping[str, str]) -> dict[str, str]:
    disturbed = f"{row['disturbed']} runs disturbed" if row["disturbed"] else ""
    interval = "–"
    if not math.isnan(row["ratio_low"]):
        interval = f"{row['ratio_low']:.3f} to {row['ratio_high']:.3f} ({row['level']:.0%})"
    return {
        "A": names[row["a"]],
        "B": names[row["b"]],
        "verdict": row["outcome"],
        "A / B": _format_or_dash(row["ratio"], ".3f"),
        "interval": interval,
        "blocks": f"{row['blocks']} of {row['planned']}",
        "would find": _format_or_dash(row["minimum_detectable_ratio"], ".2f"),
        "more blocks": _format_or_dash(row["additional_blocks"], ".0f"),
        "note": "; ".join(filter(None, [shorten(row["reason"]), disturbed])),
    }


def _format_or_dash(value: float, form: str) -> str:
    return "–" if math.isnan(value) else f"{value:{form}}"


def drilldown_table(drilldowns: Sequence[Drilldown]) -> Table:
    """Write the difference between the systems of each pair, part by part."""
    rows = [row for drill in drilldowns for row in _drilldown_rows(drill)]
    numbers = {"A, ms", "B, ms", "B - A, ms", "interval", "fraction"}
    frame = pd.DataFrame(rows).fillna("–")
    return text_table(frame, numbers, group_by="pair" if rows else None)


def _drilldown_rows(drilldown: Drilldown) -> list[dict[str, str]]:
    title = (
        f"A: {labels.system_label(drilldown.pair.a)}. B: {labels.system_label(drilldown.pair.b)}. "
    )
    title += (
        f"{drilldown.stop_reason[0].upper()}{drilldown.stop_reason[1:]}."
        if drilldown.stop_reason
        else ""
    )
    if not drilldown.parts:
        return [{"pair": title, "part": "–"}]
    table = drilldown.table()
    return [
        {
            "pair": title,
            "part": "\N{NO-BREAK SPACE}" * 4 * _INDENT[row["level"]] + row["part"],
            "A, ms": _format_ms(row["a_s"]),
            "B, ms": _format_ms(row["b_s"]),
            "B - A, ms": _format_ms(row["difference_s"], "+.2f"),
            "interval": _format_ms_interval(row["low_s"], row["high_s"]),
            "fraction": _format_fraction(row["fraction"]) if drilldown.is_explained else "–",
            "stands out": "yes" if row["is_dominant"] else "",
        }
        for _, row in table.iterrows()
    ]


def _format_ms(value_s: float, form: str = ".2f") -> str:
    return "–" if math.isnan(value_s) else f"{value_s * 1e3:{form}}".replace("-", "−")


def _format_fraction(fraction: float) -> str:
    text = f"{fraction:.0%}".replace("-", "−")
    return "0%" if text == "−0%" else text


def _format_ms_interval(low_s: float, high_s: float) -> str:
    return (
        "–" if math.isnan(low_s) else f"{_format_ms(low_s, '+.2f')} to {_format_ms(high_s, '+.2f')}"
    )


def waterfall_figures(drilldowns: Sequence[Drilldown]) -> list[FigureOutput]:
    """Draw how the fastest system's step becomes that of each of the others."""
    return [waterfall_figure(drill) for drill in _pairs_with_fastest(drilldowns) if drill.parts]


def _pairs_with_fastest(drilldowns: Iterable[Drilldown]) -> list[Drilldown]:
    """Pick the pairs of the fastest system, for each number of workers."""
    known = [drill for drill in drilldowns if drill.timed and not math.isnan(drill.timed.a_s)]
    groups: dict[int, list[Drilldown]] = {}
    for drill in known:
        groups.setdefault(drill.pair.records_a[0].run.topology.workers, []).append(drill)
    found = []
    for own in groups.values():
        times = {name: time_s for drill in own for name, time_s in _timed_steps(drill)}
        fastest = min(times, key=lambda name: times[name])
        found += [drill for drill in own if fastest in (drill.pair.a, drill.pair.b)]
    return found


def _timed_steps(drilldown: Drilldown) -> list[tuple[str, float]]:
    if drilldown.timed is None:
        return []
    return [(drilldown.pair.a, drilldown.timed.a_s), (drilldown.pair.b, drilldown.timed.b_s)]


def waterfall_figure(drilldown: Drilldown) -> FigureOutput:
    """Draw how the step of the faster of two systems becomes that of the slower."""
    turned = drilldown.timed is not None and drilldown.timed.difference_s < 0
    faster, slower = drilldown.pair.a, drilldown.pair.b
    if turned:
        faster, slower = slower, faster
    caption = (
        f"From an instrumented step of {labels.system_label(faster)} to one of {labels.system_label(slower)}: "
        "what each part adds, and its share of the difference. Means over the blocks; the line in "
        "a bar is the 95 % interval of the difference. In bold: what stands out."
    )
    figure = figures.waterfall_chart(faster, slower, _waterfalls(drilldown, turned))
    name = f"why-{_slug(drilldown.pair.a)}-{_slug(drilldown.pair.b)}"
    return FigureOutput(figure, name, caption, drilldown.table())


def _slug(system: str) -> str:
    return system.replace("/", "-").replace("_", "-").replace("+", "-")


def _waterfalls(drilldown: Drilldown, is_swapped: bool) -> list[Waterfall]:
    """Lay the step out, and below it the classes of operators if there are any."""
    step = drilldown.parts[0]
    kinds, phases = drilldown.children("step"), drilldown.children(LOCAL)
    leaves = [each for each in phases if each.level == "phase"]
    leaves += [each for each in kinds if each.part != LOCAL]
    falls = [_waterfall("one step of a worker", step, leaves, drilldown, is_swapped)]
    classes = [each for each in drilldown.parts if each.level == "class"]
    if classes:
        inside = next(each for each in drilldown.parts if each.part == classes[0].parent)
        shown = (
            classes
            if len(classes) <= MAX_OPERATOR_CLASSES
            else [*classes[: MAX_OPERATOR_CLASSES - 1], _merge_smaller_classes(classes)]
        )
        falls.append(
            _waterfall(f"{inside.part}, by operators", inside, shown, drilldown, is_swapped)
        )
    return falls


def _merge_smaller_classes(classes: Sequence[Difference]) -> Difference:
    """Put the smaller classes into one."""
    left = classes[MAX_OPERATOR_CLASSES - 1 :]
    apart = sum(each.difference_s for each in left)
    nan = math.nan
    return Difference("class", left[0].parent, "all others", nan, nan, apart)


def _waterfall(
    title: str,
    total: Difference,
    parts: Sequence[Difference],
    drilldown: Drilldown,
    is_swapped: bool,
) -> Waterfall:
    ends = (total.b_s, total.a_s) if is_swapped else (total.a_s, total.b_s)
    strides = [_waterfall_step(part, drilldown, is_swapped) for part in parts]
    seen = [each for each in strides if abs(each.added_s) >= MIN_VISIBLE_FRACTION * max(ends)]
    return Waterfall(title, *ends, seen)


def _waterfall_step(part: Difference, drilldown: Drilldown, is_swapped: bool) -> WaterfallStep:
    sign = -1 if is_swapped else 1
    whole = drilldown.parts[0].difference_s
    ends = sorted((sign * part.low_s, sign * part.high_s))
    phases = (part.parent if part.level == "class" else part.part).split(GROUP_SEPARATOR)
    return WaterfallStep(
        part=part.part,
        added_s=sign * part.difference_s,
        low_s=ends[0],
        high_s=ends[1],
        fraction=part.difference_s / whole if drilldown.is_explained else math.nan,
        is_dominant=part in drilldown.path,
        colour_of="communication" if "communication" in phases else phases[0],
    )


def recommendation_rows(recommendation: Recommendation) -> list[dict[str, str]]:
    """Write the ranking in words, the best first."""
    return [
        {
            "system": labels.system_label(str(row["system"])),
            recommendation.unit: _format_value(row["value"]),
            "interval": _format_value_interval(row),
            "beside the best": str(row["versus_best"]),
            "explanation": shorten(row["explanation"]),
            "runs": f"{row['runs']:.0f}",
        }
        for row in recommendation.ranking.to_dict("records")
    ]


def recommendation_table(recommendation: Recommendation) -> Table | Message:
    """Show the ranking."""
    rows = recommendation_rows(recommendation)
    if not rows:
        return Message(" ".join(recommendation.caveats))
    return text_table(pd.DataFrame(rows), {recommendation.unit, "interval", "runs"})


def recommendation_sentence(recommendation: Recommendation) -> Any:
    """Say which system comes first, on what it rests, and what it cannot say."""
    if recommendation.ranking.empty:
        return verdict(" ".join(recommendation.caveats), False)
    first = recommendation.ranking.iloc[0]
    value = f"{_format_value(first['value'])} {recommendation.unit}"
    said = f"{labels.system_label(str(first['system']))} comes first, with {value} ({recommendation.basis})."
    return verdict(" ".join([said, *recommendation.caveats]), True)


def recommendation_tables(answers: Mapping[str, Recommendation]) -> list[Any]:
    """Show a table for each of several wishes, below its name."""
    return [
        shown
        for wish, advice in answers.items()
        for shown in (Message(f"What matters: {wish}."), recommendation_table(advice))
    ]


def _format_value(value: float) -> str:
    if pd.isna(value):
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _format_value_interval(row: dict[Any, Any]) -> str:
    if pd.isna(row["low"]) or pd.isna(row["high"]):
        return "–"
    return f"{_format_value(row['low'])} to {_format_value(row['high'])}"
