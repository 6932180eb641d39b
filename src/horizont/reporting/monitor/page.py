"""A snapshot of a run as a page: how far it is, what it uses, what it prints."""

from __future__ import annotations

import html
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pandas as pd

from horizont.analysis.live import Snapshot
from horizont.reporting import labels
from horizont.reporting.monitor.chart import chart, clock, colour_of, legend
from horizont.reporting.monitor.logs import ALL, tail

_STYLE = Path(__file__).parents[1] / "static" / "live.css"

#: Quantity -> title and unit, in the order of the page.
CHARTS = {
    "cpu": ("CPU", "% of a core"),
    "memory": ("Memory", "MiB"),
    "network": ("Network", "MiB/s"),
    "pace": ("Step rate", "steps/s"),
    "processes": ("Processes", ""),
}

_STATES = {
    "running": "running",
    "abandoned": "left behind by a launcher that died",
    "gone": "nothing is left of it",
}

_PROCESS = {"stage": "", "steps": "", "pid": ".0f", "cpu": ".0f", "memory": ",.0f"}
_PROCESS |= {"threads": ".0f", "processes": ".0f"}
_HOST = {"cpu": ".0f", "memory": ",.0f", "available": ",.0f", "sent": ".2f", "received": ".2f"}
_HOST |= {"load": ".2f", "runnable": ".0f"}
_HEADINGS = {
    "cpu": "CPU, %",
    "memory": "memory, MiB",
    "available": "available, MiB",
    "sent": "sent, MiB/s",
    "received": "received, MiB/s",
    "load": "load, 1 min",
}


def live_page(
    snapshot: Snapshot, span_s: tuple[float, float] | None = None, log: str = ALL, note: str = ""
) -> str:
    """Write a snapshot as HTML.

    Parameters
    ----------
    span_s
        The range of time that the charts show, in seconds from the start of the run; nothing
        shows all.
    log
        The process whose last lines are shown, or `ALL`.
    note
        A line at the foot of the page.
    """
    parts = [f"<style>{_style()}</style>", _head(snapshot)]
    if snapshot.run is not None:
        parts += [
            _bar(snapshot),
            f'<div class="hz-charts">{_charts(snapshot, span_s)}{_facts(snapshot)}</div>',
            _table(f"Hosts{_when(snapshot)}", "host", snapshot.hosts, _HOST),
            _table(f"Processes{_when(snapshot)}", "process", _processes(snapshot), _PROCESS),
            f"<h4>Log: {html.escape(log)}</h4><pre>{html.escape(tail(snapshot.logs, log))}</pre>",
        ]
    foot = f'<p class="hz-foot">{html.escape(note)}</p>' if note else ""
    return f'<div class="hz-live">{"".join(parts)}{foot}</div>'


@cache
def _style() -> str:
    return _STYLE.read_text(encoding="utf-8")


def _head(snapshot: Snapshot) -> str:
    kind: str = snapshot.state
    state = _STATES.get(kind, kind)
    if snapshot.result is not None and snapshot.state == "over":
        kind = snapshot.result.status
        state = "finished" if kind == "ok" else f"{kind}: {snapshot.result.reason}"
    title = "No run yet" if snapshot.state == "gone" else "A run that is about to begin"
    about = ""
    if snapshot.run is not None:
        run = snapshot.run
        title = labels.system_label(run.system.name)
        place = labels.workload_label(run.workload.network, run.workload.dataset)
        facts = [run.experiment, place, f"block {run.block + 1}", f"{run.topology.workers} workers"]
        facts += [f"global batch {run.global_batch}", clock(snapshot.length_s)]
        about = " · ".join(facts)
    pill = f'<span class="hz-pill hz-{kind}">{html.escape(state)}</span>'
    return f"<h3>{html.escape(title)} {pill}</h3><p>{html.escape(about)}</p>"


def _bar(snapshot: Snapshot) -> str:
    """Draw how far the slowest process is."""
    assert snapshot.run is not None
    total = snapshot.run.steps.total
    done = snapshot.slowest.done if snapshot.slowest else 0
    text = f"step {done:,} of {total:,}"
    if snapshot.state == "over" and snapshot.slowest is None:
        text = f"it is not known how many of {total:,} steps were made"
    left_s = _left_s(snapshot, total - done)
    if snapshot.state == "running" and left_s is not None:
        text += f", about {clock(left_s)} of training left"
    kinds = list(dict.fromkeys(snapshot.segments["kind"])) if len(snapshot.segments) else []
    names = legend(kinds, [labels.SEGMENTS.get(kind, kind) for kind in kinds])
    share = 100.0 * done / total
    bar = f'<div class="hz-bar"><div style="width:{share:.1f}%"></div></div>'
    return f'{bar}<p class="hz-row"><span>{text}</span><span class="hz-keys">{names}</span></p>'


def _left_s(snapshot: Snapshot, steps: int) -> float | None:
    """Tell the seconds that some steps need at the newest rate of the slowest process."""
    table = snapshot.charts
    pace = table[table["quantity"] == "pace"] if len(table) else table
    if pace.empty or steps <= 0:
        return None
    rate = float(pace.groupby("name")["value"].last().min())
    return steps / rate if rate > 0 else None


def _charts(snapshot: Snapshot, span_s: tuple[float, float] | None) -> str:
    shown = span_s or (0.0, max(snapshot.length_s, 1.0))
    table = snapshot.charts
    table = table[table["time_s"].between(*shown)] if len(table) else table
    return "".join(
        chart(title, unit, _own(table, quantity), snapshot.segments, shown)
        for quantity, (title, unit) in CHARTS.items()
    )


def _own(table: pd.DataFrame, quantity: str) -> pd.DataFrame:
    if table.empty:
        return pd.DataFrame(columns=["time_s", "name", "value"])
    return table[(table["quantity"] == quantity) & table["value"].notna()]


def _facts(snapshot: Snapshot) -> str:
    """Write what the run came to, and what watching it cost."""
    found: dict[str, str] = {}
    result = snapshot.result
    if result is not None:
        values = {
            "training": None if result.train_s is None else f"{result.train_s:.1f} s",
            "start-up": f"{sum(result.startup_s.values()):.1f} s" if result.startup_s else None,
            "final loss": None if result.final_loss is None else f"{result.final_loss:.3f}",
            "test accuracy": _maybe(result.test_accuracy, ".1%"),
            "test perplexity": _maybe(result.test_perplexity, ",.0f"),
            "disturbed": "by other programs" if result.disturbed else "no",
        }
        found |= {name: value for name, value in values.items() if value is not None}
    sampler = snapshot.sampler
    if sampler and sampler["cpu"] == sampler["cpu"]:
        found["sampler"] = f"{sampler['cpu']:.1f} % of a core"
        found["lateness"] = f"{sampler['late_ms']:.2f} ms (median), {sampler['missed']:.0f} missed"
    rows = "".join(f"<tr><td>{name}</td><td>{value}</td></tr>" for name, value in found.items())
    return f'<figure class="hz-facts"><table>{rows}</table></figure>'


def _maybe(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)


def _when(snapshot: Snapshot) -> str:
    """Say what the numbers of a run that is over are."""
    return ": mean, and most memory" if snapshot.state == "over" else " now"


def _processes(snapshot: Snapshot) -> pd.DataFrame:
    """Put stage and steps of each process beside what it uses."""
    names = sorted({*snapshot.stages, *snapshot.processes.index})
    table = snapshot.processes.reindex(names)
    steps = {name: f"{p.done:,} of {p.planned:,}" for name, p in snapshot.progress.items()}
    table["stage"] = [snapshot.stages.get(name) for name in names]
    table["steps"] = [steps.get(name) for name in names]
    return table


def _table(title: str, first: str, table: pd.DataFrame, columns: Mapping[str, str]) -> str:
    known = {name: form for name, form in columns.items() if name in table and len(table)}
    if not known:
        return ""
    heads = "".join(f"<th>{_HEADINGS.get(name, name)}</th>" for name in known)
    rows = []
    for label, row in table.iterrows():
        cells = "".join(f"<td>{_cell(row[name], form)}</td>" for name, form in known.items())
        dot = f'<i style="background:{colour_of(str(label))}"></i>' if first == "process" else ""
        rows.append(f"<tr><td>{dot}{html.escape(str(label))}</td>{cells}</tr>")
    body = "".join(rows)
    return f"<h4>{title}</h4><table><tr><th>{first}</th>{heads}</tr>{body}</table>"


def _cell(value: object, form: str) -> str:
    if value is None or value != value:  # noqa: PLR0124 (NaN: not measured)
        return "–"
    return format(value, form) if form else html.escape(str(value))
