"""Registering figures and tables, and showing them on the page of an experiment."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
from record_maker import make_study

from horizont.config.experiment import Overrides
from horizont.errors import UserError
from horizont.reporting.figures.communication import distribution_cost_table
from horizont.reporting.output import FigureOutput, TableOutput
from horizont.reporting.page import ExperimentPage, show
from horizont.reporting.registry import Drawing, figure, find_entry, table
from horizont.reporting.style import new_figure
from horizont.reporting.tables import text_table

DATASET = SimpleNamespace(source="synthetic", kind="image", best_accuracy=0.9, best_perplexity=None)


@figure("wall-{framework}", title="Wall time", needs=lambda records: len(records) > 1)
def wall_time(records, framework="all"):
    """Wall time of {count} runs."""
    data = pd.DataFrame({"wall_s": [record.result.wall_s for record in records]})
    plot = new_figure(1.0)
    plot.subplots().plot(data["wall_s"])
    return Drawing(plot, data, {"framework": framework, "count": len(records)})


@table("statuses", title="Statuses", text="A paragraph about them.")
def statuses(records, workload):
    return text_table(pd.DataFrame({"status": [f"{workload}: {r.result.status}" for r in records]}))


@pytest.fixture
def shown(monkeypatch):
    outputs = []
    monkeypatch.setattr("horizont.reporting.page._display", outputs.append)
    return outputs


def make_page(records, published=None, **fields):
    return ExperimentPage(
        study=make_study(),
        experiment=records[0].run.experiment,
        workload="lenet5-cifar10",
        dataset=DATASET,
        records=records,
        certificate="verified",
        publish=lambda: published.append(True),
        **fields,
    )


def test_a_figure_from_outside_the_package_is_shown_on_a_page(records, shown):
    make_page(records).show("wall-{framework}", framework="mxnet")
    (output,) = shown
    assert isinstance(output, FigureOutput)
    assert output.name == "wall-mxnet"
    assert output.caption == f"Wall time of {len(records)} runs."
    assert output.csv()[0].startswith("wall_s\n")


def test_a_table_from_outside_the_package_has_its_title(records, shown):
    make_page(records).show("statuses")
    (output,) = shown
    assert isinstance(output, TableOutput)
    assert output.title == "Statuses"
    assert output.cells["status"][0] == "lenet5-cifar10: ok"


def test_optional_sections_have_a_heading_and_are_left_out_where_records_lack_them(records, shown):
    page = make_page(records)
    page.show_optional("wall-{framework}", "statuses", "traffic", "links")
    assert [getattr(output, "text", None) for output in shown] == [
        "## Wall time",
        None,
        "## Statuses\n\nA paragraph about them.",
        None,
    ]


def test_the_page_of_an_experiment(records, shown):
    published = []
    page = make_page(records, published)
    page.title()
    page.show("setup")
    page.show("runs")
    page.publish()
    title, setup, runs = shown
    assert title.text == "LeNet-5 on CIFAR-10 (synthetic stand-in)"
    assert "20 warm-up, 80 timed, 30 instrumented" in setup.html()
    assert len(runs.cells) == len(records)
    assert published == [True]


def test_the_tables_of_a_page_have_the_overrides_of_its_workload(records, shown):
    page = make_page(records)
    overrides = {page.workload: Overrides(systems=("jax/local",), blocks=2)}
    experiment = page.study.experiment(page.experiment).model_copy(update={"overrides": overrides})
    experiments = {**page.study.experiments, page.experiment: experiment}
    page = replace(page, study=page.study.model_copy(update={"experiments": experiments}))
    page.show("systems")
    page.show("setup")
    systems, setup = shown
    assert list(systems.cells["system"]) == ["JAX, one process"]
    assert setup.cells.loc[setup.cells.iloc[:, 0] == "blocks"].iloc[0, 1] == "2"


def test_the_title_of_a_view_names_the_experiment(records, shown):
    make_page(records, is_view=True).title()
    assert shown[0].text.startswith("Two workers on one machine, LeNet-5 on")


def test_figures_of_a_page_without_an_experiment(shown):
    show("publications")
    assert "Jaeger" in shown[0].html()


def test_a_name_is_taken_once():
    def register():
        @table("statuses")
        def others(records):
            return text_table(pd.DataFrame())

    with pytest.raises(UserError, match="statuses"):
        register()


def test_a_function_may_be_defined_again_in_a_notebook():
    for _ in range(2):

        @table("defined twice")
        def twice(records):
            return text_table(pd.DataFrame())

    assert find_entry("defined twice").function is twice


def test_an_unknown_name_is_refused(records):
    with pytest.raises(UserError, match="no such figure"):
        find_entry("no such figure")


def test_a_decorated_function_can_be_called_directly(records):
    assert distribution_cost_table(records).title == "The cost of distribution"


def test_all_names_have_titles_where_sections_need_them():
    names = ("hosts", "traffic", "distribution_cost", "time_to_loss", "links", "scaling")
    for name in (*names, "capacity"):
        assert find_entry(name).title
