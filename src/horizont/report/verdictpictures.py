"""The tables and figures of the verdicts: from drill-downs to what readers see."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from horizont.analysis import AND, LOCAL, Difference, Drilldown
from horizont.report import figures, words
from horizont.report.figures.waterfall import Fall, Stride
from horizont.report.picture import Picture
from horizont.report.tables import Table, plain_table, shortened
from horizont.report.why import short_names

#: Classes of operators that a figure shows; the others are one row.
SHOWN = 8

#: A stride of less than this share of a step would be thinner than a line.
UNSEEN = 0.001

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
    return plain_table(frame[said], numbers & set(said))


def _verdict_row(row: pd.Series, names: Mapping[str, str]) -> dict[str, str]:
    disturbed = f"{row['disturbed']} runs disturbed" if row["disturbed"] else ""
    interval = "–"
    if not math.isnan(row["ratio_low"]):
        interval = f"{row['ratio_low']:.3f} to {row['ratio_high']:.3f} ({row['level']:.0%})"
    return {
        "A": names[row["a"]],
        "B": names[row["b"]],
        "verdict": row["outcome"],
        "A / B": _plain(row["ratio"], ".3f"),
        "interval": interval,
        "blocks": f"{row['blocks']} of {row['planned']}",
        "would find": _plain(row["detectable"], ".2f"),
        "more blocks": _plain(row["further_blocks"], ".0f"),
        "note": "; ".join(filter(None, [shortened(row["reason"]), disturbed])),
    }


def _plain(value: float, form: str) -> str:
    return "–" if math.isnan(value) else f"{value:{form}}"


def drill_table(drilldowns: Sequence[Drilldown]) -> Table:
    """Write the difference between the systems of each pair, part by part."""
    rows = [row for drill in drilldowns for row in _rows(drill)]
    numbers = {"A, ms", "B, ms", "B - A, ms", "interval", "share"}
    frame = pd.DataFrame(rows).fillna("–")
    return plain_table(frame, numbers, group_by="pair" if rows else None)


def _rows(drill: Drilldown) -> list[dict[str, str]]:
    title = f"A: {words.system(drill.pair.a)}. B: {words.system(drill.pair.b)}. "
    title += f"{drill.end[0].upper()}{drill.end[1:]}." if drill.end else ""
    if not drill.parts:
        return [{"pair": title, "part": "–"}]
    table = drill.table()
    return [
        {
            "pair": title,
            "part": "\N{NO-BREAK SPACE}" * 4 * _INDENT[row["level"]] + row["part"],
            "A, ms": _ms(row["a_s"]),
            "B, ms": _ms(row["b_s"]),
            "B - A, ms": _ms(row["difference_s"], "+.2f"),
            "interval": _interval(row["low_s"], row["high_s"]),
            "share": _share(row["share"]) if drill.is_explained else "–",
            "stands out": "yes" if row["named"] else "",
        }
        for _, row in table.iterrows()
    ]


def _ms(value_s: float, form: str = ".2f") -> str:
    return "–" if math.isnan(value_s) else f"{value_s * 1e3:{form}}".replace("-", "−")


def _share(share: float) -> str:
    text = f"{share:.0%}".replace("-", "−")
    return "0%" if text == "−0%" else text


def _interval(low_s: float, high_s: float) -> str:
    return "–" if math.isnan(low_s) else f"{_ms(low_s, '+.2f')} to {_ms(high_s, '+.2f')}"


def waterfall_pictures(drilldowns: Sequence[Drilldown]) -> list[Picture]:
    """Draw how the fastest system's step becomes that of each of the others."""
    return [waterfall_picture(drill) for drill in _with_fastest(drilldowns) if drill.parts]


def _with_fastest(drilldowns: Iterable[Drilldown]) -> list[Drilldown]:
    """Pick the pairs of the fastest system, for each number of workers."""
    known = [drill for drill in drilldowns if drill.bare and not math.isnan(drill.bare.a_s)]
    groups: dict[int, list[Drilldown]] = {}
    for drill in known:
        groups.setdefault(drill.pair.records_a[0].run.topology.workers, []).append(drill)
    found = []
    for own in groups.values():
        times = {name: time_s for drill in own for name, time_s in _bare(drill)}
        fastest = min(times, key=lambda name: times[name])
        found += [drill for drill in own if fastest in (drill.pair.a, drill.pair.b)]
    return found


def _bare(drill: Drilldown) -> list[tuple[str, float]]:
    if drill.bare is None:
        return []
    return [(drill.pair.a, drill.bare.a_s), (drill.pair.b, drill.bare.b_s)]


def waterfall_picture(drill: Drilldown) -> Picture:
    """Draw how the step of the faster of two systems becomes that of the slower."""
    turned = drill.bare is not None and drill.bare.difference_s < 0
    faster, slower = drill.pair.a, drill.pair.b
    if turned:
        faster, slower = slower, faster
    caption = (
        f"From an instrumented step of {words.system(faster)} to one of {words.system(slower)}: "
        "what each part adds, and its share of the difference. Means over the blocks; the line in "
        "a bar is the 95 % interval of the difference. In bold: what stands out."
    )
    figure = figures.waterfall(faster, slower, _falls(drill, turned))
    name = f"why-{_slug(drill.pair.a)}-{_slug(drill.pair.b)}"
    return Picture(figure, name, caption, drill.table())


def _slug(system: str) -> str:
    return system.replace("/", "-").replace("_", "-").replace("+", "-")


def _falls(drill: Drilldown, turned: bool) -> list[Fall]:
    """Lay the step out, and below it the classes of operators if there are any."""
    step = drill.parts[0]
    kinds, phases = drill.inside("step"), drill.inside(LOCAL)
    leaves = [each for each in phases if each.level == "phase"]
    leaves += [each for each in kinds if each.part != LOCAL]
    falls = [_fall("one step of a worker", step, leaves, drill, turned)]
    classes = [each for each in drill.parts if each.level == "class"]
    if classes:
        inside = next(each for each in drill.parts if each.part == classes[0].within)
        shown = classes if len(classes) <= SHOWN else [*classes[: SHOWN - 1], _rest(classes)]
        falls.append(_fall(f"{inside.part}, by operators", inside, shown, drill, turned))
    return falls


def _rest(classes: Sequence[Difference]) -> Difference:
    """Put the smaller classes into one."""
    left = classes[SHOWN - 1 :]
    apart = sum(each.difference_s for each in left)
    nan = math.nan
    return Difference("class", left[0].within, "all others", nan, nan, apart)


def _fall(
    title: str, whole: Difference, parts: Sequence[Difference], drill: Drilldown, turned: bool
) -> Fall:
    ends = (whole.b_s, whole.a_s) if turned else (whole.a_s, whole.b_s)
    strides = [_stride(part, drill, turned) for part in parts]
    seen = [each for each in strides if abs(each.added_s) >= UNSEEN * max(ends)]
    return Fall(title, *ends, seen)


def _stride(part: Difference, drill: Drilldown, turned: bool) -> Stride:
    sign = -1 if turned else 1
    whole = drill.parts[0].difference_s
    ends = sorted((sign * part.low_s, sign * part.high_s))
    phases = (part.within if part.level == "class" else part.part).split(AND)
    return Stride(
        part=part.part,
        added_s=sign * part.difference_s,
        low_s=ends[0],
        high_s=ends[1],
        share=part.difference_s / whole if drill.is_explained else math.nan,
        named=part in drill.path,
        colour_of="communication" if "communication" in phases else phases[0],
    )
