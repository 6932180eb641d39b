"""Outputs of notebook cells: what JupyterLab shows, and what the book is built from."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pandas as pd
import pytest
from matplotlib.figure import Figure

from horizont.config.workload import Workload
from horizont.reporting import output
from horizont.reporting.figures.learning import loss_figure
from horizont.reporting.figures.phases import phase_figure, startup_figure, throughput_figure
from horizont.reporting.figures.resources import resource_figures
from horizont.reporting.page import workload_title
from horizont.reporting.tables import text_table


def figure_output(data: pd.DataFrame | None = None) -> output.FigureOutput:
    return output.FigureOutput(Figure(), "speed", "How <fast>.", data)


TABLE = output.TableOutput(
    pd.DataFrame({"name": ["a<b", "c"], "value": ["1", "2"]}),
    frozenset({"name"}),
    groups={1: "G&H"},
)


def test_a_figure_has_its_caption_and_the_data_it_was_drawn_from() -> None:
    bundle = figure_output(pd.DataFrame({"x": [1, 2], "y": [0.123456789, None]}))
    content = bundle._repr_mimebundle_()
    book = content[output.FIGURE_MIME]
    assert (book["name"], book["caption"]) == ("speed", "How <fast>.")
    assert "How &lt;fast&gt;." in content["text/html"]
    assert 'download="speed.csv"' in content["text/html"]
    assert "x,y%0A1,0.123457%0A2,%0A" in content["text/html"]
    assert json.dumps(content).count("<svg") == 1


@pytest.mark.parametrize("data", [None, pd.DataFrame({"x": []})])
def test_a_figure_without_data_has_no_link(data: pd.DataFrame | None) -> None:
    assert "download" not in figure_output(data)._repr_mimebundle_()["text/html"]


def test_long_data_are_thinned_and_say_so() -> None:
    rows = 4 * output.MAX_CSV_ROWS
    long = figure_output(pd.DataFrame({"x": range(rows)}))
    assert long._repr_mimebundle_()[output.FIGURE_MIME]["csv_rows_per_row"] == 4
    assert long.csv()[0].splitlines()[:3] == ["x", "0", "4"]


def test_wide_data_are_thinned_more() -> None:
    rows, columns = 600, 60
    wide = figure_output(pd.DataFrame({f"x{column}": range(rows) for column in range(columns)}))
    text, every = wide.csv()
    assert every == 6
    assert len(text.splitlines()) == 1 + rows // 6


def test_a_figure_can_be_saved(tmp_path) -> None:
    path = tmp_path / "below" / "figure.svg"
    figure_output().save(path)
    assert path.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    "plot",
    [
        phase_figure,
        throughput_figure,
        loss_figure,
        startup_figure,
        lambda records: resource_figures(records).items[0],
    ],
)
def test_figures_of_records_have_data(records, plot) -> None:
    text, _ = plot(records).csv()
    assert len(pd.read_csv(io.StringIO(text)))


def test_a_table_is_escaped_aligned_and_grouped() -> None:
    bundle = TABLE._repr_mimebundle_()
    html = bundle["text/html"]
    assert '<td class="hz-left">a&lt;b</td><td>1</td>' in html
    assert '<tr class="hz-group"><th colspan="2">G&amp;H</th></tr>' in html
    assert bundle[output.TABLE_MIME] == {"measured": True}


def test_columns_of_text_are_as_wide_as_their_texts_need() -> None:
    row = {"claim": "J01", "system": "PyTorch, one process", "content": 10 * "long text "}
    html = text_table([row]).html()
    assert '<th class="hz-left">claim</th>' in html
    assert '<td class="hz-left hz-names">PyTorch' in html
    assert '<td class="hz-left hz-long">long' in html


def test_a_table_may_have_a_title() -> None:
    titled = replace(TABLE, title="Names")._repr_mimebundle_()
    assert titled[output.TABLE_MIME]["title"] == "Names"
    assert "title" not in TABLE._repr_mimebundle_()[output.TABLE_MIME]


def test_a_table_without_headings_is_not_numbered() -> None:
    bundle = output.key_value_table({"a": 1, "b": None})._repr_mimebundle_()
    assert output.TABLE_MIME not in bundle
    assert '<td class="hz-left">–</td>' in bundle["text/html"]


def test_a_title_is_in_the_metadata() -> None:
    bundle, metadata = output.PageTitle("LeNet-5", "SGD", "It is fast.")._repr_mimebundle_()
    assert bundle["text/markdown"] == "**LeNet-5** · SGD\n\nIt is fast."
    declared = {"title": "LeNet-5", "facts": "SGD", "finding": "It is fast."}
    assert metadata["horizont"] == declared


def test_named_values_have_their_numbers_in_the_metadata() -> None:
    bundle, metadata = output.named_values(mean_loss=0.123456, steps=12000)._repr_mimebundle_()
    assert metadata["horizont"]["numbers"] == {"mean loss": 0.123456, "steps": 12000.0}
    for text in ("mean loss", "0.1235", "12,000"):
        assert text in bundle["text/html"]


def test_a_stack_keeps_its_parts_apart() -> None:
    bundle = output.Stack((figure_output(), TABLE, output.named_values(a=1)))._repr_mimebundle_()
    kinds = [set(part) - {"text/plain"} for part in bundle[output.STACK_MIME]]
    assert kinds == [{output.FIGURE_MIME}, {output.TABLE_MIME}, set()]
    figure, table, values = bundle["text/html"].split(output.STACK_SEPARATOR)
    assert "<svg" in figure
    assert "a&lt;b" in table
    assert "1" in values


def test_a_listing_shows_the_first_paragraph_of_a_docstring() -> None:
    text = output.source_listing(output.mime_bundle).text
    assert text.startswith("```python\ndef mime_bundle(item: Any)")
    assert '"""Return the representations' in text


def test_a_title_names_the_learning_rates_of_a_sweep() -> None:
    values = {"network": "lenet", "dataset": "fashion-mnist", "optimizer": {"learning_rate": 0.025}}
    workload = Workload.model_validate(values)
    facts = workload_title(workload, "real").facts
    assert facts == "SGD, learning rate 0.025; the real data set"
    facts = workload_title(workload, "real", rates={0.05, 0.1}).facts
    assert facts == "SGD, learning rate 0.1 or 0.05; the real data set"
