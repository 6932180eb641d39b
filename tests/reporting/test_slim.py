"""Figures made smaller for paper: what is left out is not seen."""

from __future__ import annotations

from horizont.reporting.printed.slim import simplified, slim


def test_a_line_keeps_its_bends_and_its_ends() -> None:
    straight = [(float(x), 0.01 * (x % 2)) for x in range(50)]
    assert simplified(straight) == [straight[0], straight[-1]]
    bent = [*straight, (50.0, 9.0), *((float(x), 0.0) for x in range(51, 60))]
    assert (50.0, 9.0) in simplified(bent)


def test_transparent_fills_need_no_group_and_curves_stay() -> None:
    fill = '<path d="M 0 0 L 1 0 z" style="fill: #abcdef; opacity: 0.1"/>'
    assert "fill-opacity: 0.1" in slim(fill)
    both = '<path d="M 0 0 L 1 0 z" style="fill: #abcdef; opacity: 0.1; stroke: #000000"/>'
    assert slim(both) == both
    curve = f'<path d="M 0 0 C {"1.2345 2 3 " * 20}"/>'
    assert slim(curve) == curve
