"""The numbers behind figures: with every figure, whole, and small."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from horizont import reporting
from horizont.reporting import lessons, sheet
from horizont.reporting.page import FigureOutput


def numbers(picture: FigureOutput) -> pd.DataFrame:
    """Read what the link of a picture holds."""
    bundle, _ = picture._repr_mimebundle_()
    _, files = sheet.taken_out(bundle["text/html"], "_data", "page")
    ((name, text),) = files.items()
    assert name == f"_data/page-{picture.name}.csv"
    return pd.read_csv(io.StringIO(text))


def test_a_figure_of_measurements_holds_the_table_that_it_was_drawn_from(records) -> None:
    data = numbers(reporting.phase_figure(records))
    assert {"system", "phase", "mean_s", "timed_s"} <= set(data)
    assert data["mean_s"].max() > 0


@pytest.mark.parametrize(
    "draw",
    [reporting.throughput_figure, reporting.loss_figure, reporting.startup_figure],
)
def test_every_figure_of_records_has_numbers(records, draw) -> None:
    assert len(numbers(draw(records)))


def test_charts_of_resources_have_a_row_a_sample(records) -> None:
    picture = reporting.resource_figures(records)[0]
    data = numbers(picture)
    assert data["time_s"].is_unique
    assert any(name.startswith("cpu ") for name in data)


def test_of_other_figures_what_is_drawn_is_read_back() -> None:
    data = numbers(lessons.descent.rates())
    assert len(data["panel"].unique()) == 4
    line = data[(data["panel"] == data["panel"].iloc[0]) & (data["series"] == 1)]
    assert line["y"].tolist() == pytest.approx((0.5 * line["x"] ** 2).tolist(), rel=1e-4)


def test_bars_marks_and_small_fields_are_read_back() -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    left.bar([0, 1], [3.0, 4.0], label="b")
    left.scatter([5], [6])
    left.axhline(2)  # an ornament, but one at a place of the data: kept
    right.imshow(np.arange(6.0).reshape(2, 3))
    data = sheet.drawn(figure)
    assert data.loc[data["kind"] == "bar", "height"].tolist() == [3.0, 4.0]
    assert data.loc[data["kind"] == "marks", "y"].tolist() == [6.0]
    assert data.loc[data["kind"] == "field", "height"].tolist() == list(range(6))


def test_long_tables_are_thinned_and_say_so() -> None:
    link = sheet.link("a b", pd.DataFrame({"x": range(4 * sheet.ROWS)}))
    assert "one row of 4" in link
    _, files = sheet.taken_out(link, "_data", "p")
    assert files["_data/p-a-b.csv"].splitlines()[:3] == ["x", "0", "4"]
    assert sheet.link("none", pd.DataFrame({"x": []})) == ""
