"""The page of a comparison: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import isnan

from horizont.modeldiff.distances import Difference
from horizont.modeldiff.report import Report, listed, named_tensor, shade
from horizont.modeldiff.search import Cause

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-size: 0.9rem; }
th, td { border-bottom: 1px solid #8884; padding: 0.25rem 0.75rem 0.25rem 0; text-align: left;
  vertical-align: top; }
th { white-space: nowrap; }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code, pre { font: 0.85rem/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; }
"""


def page(report: Report, command: str = "") -> str:
    """Return a report as a page.

    Parameters
    ----------
    command
        What was typed, to repeat the comparison.
    """
    other = "B" if report.changed == "A" else "A"
    sections = [
        ("What was compared", _sides(report)),
        (f"What repairs side {report.changed}", _causes(report.repairs, report.changed, other)),
        ("What remains unexplained", _tensors(report.unexplained)),
        ("Agreement with all repairs", _list(map(str, report.agreements))),
        ("Layers in the order of execution", _layers(report, other)),
        ("Differs without an effect here", _list(map(str, report.without_effect))),
        ("Layers or tensors of one side alone", _alone(report)),
        ("Times", f"<pre>{escape(_times(report))}</pre>" if report.timing else ""),
        ("Notes", _list([*map(str, report.left_out), *report.notes])),
        ("Repeat it", f"<pre>{escape(command)}</pre>" if command else ""),
    ]
    body = "".join(f"<h2>{escape(title)}</h2>{content}" for title, content in sections if content)
    verdict = escape(report.verdict)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{verdict}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{verdict[:1].upper()}{verdict[1:]}</h1>{body}</body></html>\n"
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already; empty if it has no rows."""
    lines = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    if not lines:
        return ""
    titles = "".join(f"<th>{escape(each)}</th>" for each in head)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>"


def _cell(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def _number(value: float, bound: float | None = None) -> str:
    """Return a distance, shaded where it exceeds its bound; an empty cell for NaN."""
    if isnan(value):
        return "<td></td>"
    style = shade(value / bound) if bound else ""
    return f'<td class="number" style="{style}">{value:.2g}</td>'


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(each)}</li>" for each in lines)
    return f"<ul>{items}</ul>" if items else ""


def _sides(report: Report) -> str:
    rows = [
        [_cell(label), f"<td><code>{escape(text)}</code></td>", _cell(listed(versions))]
        for label, text, versions in zip("AB", (report.a, report.b), report.versions, strict=True)
    ]
    ties = f", {report.ties} of them by a choice between equal shapes" if report.ties else ""
    about = f"Batch {report.batch}; {report.pairs} pairs of layers{ties}."
    return f"{_table(['side', 'model', 'versions'], rows)}<p>{escape(about)}</p>"


def _causes(causes: Sequence[Cause], changed: str, other: str) -> str:
    head = ["difference", changed, other, "layers", "first tensor", "without", "with it"]
    rows = [
        [
            _cell(cause.candidate.what),
            _cell(cause.candidate.value_a),
            _cell(cause.candidate.value_b),
            _cell(_several(cause.candidate.layers)),
            *_effect(cause),
        ]
        for cause in causes
    ]
    return _table(head, rows)


def _effect(cause: Cause) -> list[str]:
    """Return the cells of the first tensor that is repaired, with its distances."""
    if cause.repaired is None:
        return [_cell("")] * 3
    first = cause.explained[0]
    return [
        _cell(named_tensor(first)), _number(first.distance), _number(cause.repaired.distance)
    ]  # fmt: skip


def _several(layers: Sequence[str]) -> str:
    return ", ".join(layers) or "the whole model"


def _tensors(differences: Sequence[Difference]) -> str:
    rows = [
        [_cell(named_tensor(each)), _number(each.distance), _number(each.bound)]
        for each in differences
    ]
    return _table(["tensor", "distance", "rounding explains"], rows)


def _layers(report: Report, other: str) -> str:
    """List the layers of both sides with the distances of their outputs and their code."""
    partners = {each.layer: each for each in report.layers}
    rows = []
    table = report.table()
    columns = (table[name].tolist() for name in ("layer", "distance", "repaired", "bound"))
    for layer, distance, repaired, bound in zip(*columns, strict=True):
        pair = partners.get(layer)
        codes = (pair.code, pair.partner_code) if pair else ("", "")
        names = (layer, pair.partner if pair else "")
        rows.append(
            [
                *(
                    f'<td title="{escape(code)}">{escape(name)}</td>'
                    for name, code in zip(names, codes, strict=True)
                ),
                _cell(pair.kind if pair else ""),
                _number(distance, bound),
                _number(repaired, bound),
                _number(bound),
                _cell(pair.lines_of_code if pair else ""),
            ]
        )
    head = [report.changed, other, "kind", "distance", "with repairs", "rounding", "code"]
    return _table(head, rows)


def _alone(report: Report) -> str:
    return _list(
        f"{label}: {', '.join(names)}"
        for label, names in (("A", report.only_a), ("B", report.only_b))
        if names
    )


def _times(report: Report) -> str:
    assert report.timing is not None
    return "\n".join(report.timing.lines())
