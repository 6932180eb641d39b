"""Text of figures and tables: within its figure, apart from other text, in full."""

from __future__ import annotations

import itertools
import re

import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from horizont.reporting import style
from horizont.reporting.figures.communication import link_figure
from horizont.reporting.figures.equivalence import distance_figure
from horizont.reporting.figures.operators import format_ratio
from horizont.reporting.figures.phases import startup_figure
from horizont.reporting.reproduction import reproduction_rows
from horizont.reporting.svg import standalone_svg
from horizont.reporting.tables import format_number, format_table

LONG = "TensorFlow, asynchronous, parameter server, without oneDNN"


def draw_legend(handles: int, columns: int, label: str = LONG) -> Figure:
    """Draw a figure of 3 inches with a legend."""
    with style.book_style():
        figure = style.new_figure(3.0)
        figure.subplots().plot([0, 1], [0, 1])
        lines = [Line2D([], [], label=f"{label} {number}") for number in range(handles)]
        style.legend_above(figure, lines, columns)
        figure.draw_without_rendering()
    return figure


@pytest.mark.parametrize("columns", [2, 3])
def test_a_legend_is_within_its_figure(columns: int) -> None:
    figure = draw_legend(13, columns)
    (legend,) = figure.legends
    assert legend.get_window_extent().x1 <= figure.bbox.x1
    assert len(legend.get_texts()) == 13


def test_a_figure_is_higher_for_a_legend_of_many_rows() -> None:
    low, high = (draw_legend(handles, 1, "a system") for handles in (2, 13))
    assert low.get_figheight() == 3.0
    heights = [figure.axes[0].get_window_extent().height for figure in (low, high)]
    assert heights[1] == pytest.approx(heights[0], rel=0.05)


def test_an_axis_label_is_within_its_figure(records) -> None:
    figure = startup_figure(records).figure
    with style.book_style():
        figure.draw_without_rendering()
    assert figure.axes[0].xaxis.label.get_window_extent().x1 <= figure.bbox.x1


def test_texts_are_as_wide_at_the_resolution_of_svg_as_at_any() -> None:
    with style.book_style():
        widths = [
            figure.text(0, 0, "fully connected backward", weight="bold").get_window_extent().width
            / dpi
            for dpi in (72, 720)
            for figure in [Figure(dpi=dpi)]
        ]
    assert widths[0] == pytest.approx(widths[1], rel=0.01)


def test_texts_have_all_their_digits() -> None:
    with style.book_style():
        figure = style.new_figure(1.0)
        figure.subplots().set_axis_off()
        figure.text(0.1, 0.123456, "0.0005 MiB/s")
    svg = standalone_svg(figure, "title")
    assert "0.0005 MiB/s" in svg
    assert not re.search(r'"[^"]*\d\.\d{3}[^"]*"', svg), "coordinates are short"


def test_names_of_stages_do_not_overlap() -> None:
    stages = ["initial", "inputs", "logits", "loss", "gradient", "evaluation", "step_loss", "batch"]
    row = {"check": "frameworks", "pair": "pytorch-jax", "ok": True, "step": 0, "noise": 0.0}
    row |= {"distance": 1e-8, "bound": 1e-6, "tensor": "x"}
    rows = [
        {**row, "quantity": stage, "dtype": dtype}
        for dtype in ("float64", "float32")
        for stage in stages
    ]
    figure = distance_figure(rows).figure
    with style.book_style():
        figure.draw_without_rendering()
    for left, right in itertools.pairwise(figure.axes[0].get_xticklabels()):
        assert left.get_rotation() > 0
        line_height = 8 * figure.dpi / 72
        distance = right.get_window_extent().x1 - left.get_window_extent().x1
        assert distance > line_height, f"{left.get_text()}, {right.get_text()}"


@pytest.mark.parametrize("plot", [link_figure, distance_figure])
def test_captions_name_no_colour_that_a_dark_page_replaces(plot) -> None:
    assert not re.search(r"\b(black|white)\b", plot.__doc__, re.IGNORECASE)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.0, "1.0"), (9.96, "10"), (99.4, "99"), (8912.0, ">99"), (float("nan"), "only")],
)
def test_ratios_fit_their_fields(ratio: float, text: str) -> None:
    assert format_ratio(ratio) == text


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (-0.001, ".2f", "0.00"),
        (-0.001, "+.2f", "0.00"),
        (-0.006, ".2f", "−0.01"),
        (-0.001, ".0%", "0%"),
        (-1000.0, ",.0f", "−1,000"),
    ],
)
def test_zero_has_no_sign(value: float, form: str, text: str) -> None:
    assert format_number(value, form) == text


def test_tables_have_headings_for_readers_and_zero_without_a_sign() -> None:
    table = format_table(pd.DataFrame([{"global_batch": 126, "step_s": -1e-6}]))
    assert list(table.cells.columns) == ["global batch", "timed step, ms"]
    assert table.cells.iloc[0].to_list() == ["126", "0.00"]


def test_there_is_no_ratio_of_values_that_round_to_almost_nothing() -> None:
    row = {
        "experiment": "local",
        "workload": "lenet5",
        "system": "pytorch/local",
        "point": "1 x 42",
    }
    row |= {"quantity": "load_s", "outcome": "not settled", "ratio": 7.18, "low": 1.0, "high": 9.0}
    ends = {
        f"{name}_{end}": float("nan")
        for name in ("expected", "obtained")
        for end in ("low", "high")
    }
    small = {"expected": 0.000003, "obtained": 0.00002}
    large = {"expected": 0.003, "obtained": 0.02}
    rows = reproduction_rows(pd.DataFrame([{**row, **ends, **each} for each in (small, large)]))
    assert list(rows["ratio"]) == ["–", "7.18"]
    assert list(rows["interval"]) == ["–", "1.00 to 9.00"]
