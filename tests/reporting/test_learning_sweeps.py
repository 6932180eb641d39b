"""What is learned over workers, learning rates and initial weights: figures of given accuracies."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from claim_maker import make_runs, with_accuracy

from horizont.analysis.learning import loss_ratios
from horizont.records.files import write_table
from horizont.reporting import style
from horizont.reporting.figures import learning_sweeps
from horizont.reporting.registry import find_entry

MX, MX_SYNC = "mxnet/async/parameter_server", "mxnet/sync/parameter_server"
LEARNS, LOSES, FAILS = (0.3, 0.8), (0.7, 0.1), (0.1, 0.1)
NAMES = ("learning_by_workers", "learning_outcomes", "learning_by_initial_weights")


@pytest.fixture
def learning(tmp_path):
    """Write runs with evaluations after 100 and 200 steps; by workers and rate, one per block."""

    def write(accuracies, **changes):
        records = []
        for (workers, rate), by_block in accuracies.items():
            times = [1.0] * len(by_block)
            settings = {"workers": workers, "learning_rate": rate, **changes}
            evaluation = {"examples": 100, "every": 100}
            runs = make_runs(tmp_path, MX, times, evaluation=evaluation, **settings)
            records += [with_accuracy(run, *each) for run, each in zip(runs, by_block, strict=True)]
        return records

    return write


def test_each_run_has_a_line_in_the_colour_of_its_workers(learning):
    records = learning({(1, 0.1): [LEARNS, LEARNS], (4, 0.1): [FAILS, FAILS]})
    output = learning_sweeps.learning_by_workers_figure(records)
    steps, times = output.figure.axes
    assert len(times.lines) == 4
    assert [line.get_color() for line in steps.lines] == [
        *[style.ORDINAL_COLOURS[0]] * 2,
        *[style.ORDINAL_COLOURS[1]] * 2,
    ]
    assert steps.lines[0].get_xdata().tolist() == [100, 200]
    assert steps.lines[0].get_ydata() == pytest.approx([30, 80])
    assert steps.get_title(loc="left") == "MXNet, learning rate 0.1"
    assert [find_entry(name).needs(records) for name in NAMES] == [True, True, False]


def test_each_run_has_a_marker_that_is_filled_if_it_learns(learning):
    records = learning({(1, 0.1): [LEARNS], (4, 0.1): [LEARNS, LOSES, FAILS], (4, 0.05): [FAILS]})
    output = learning_sweeps.learning_outcome_figure(records)
    (axes,) = output.figure.axes
    marks = [(*line.get_xydata()[0], line.get_fillstyle()) for line in axes.lines]
    # Rates from below, 0.05 and 0.1; workers from the left, 1 and 4.
    distance = learning_sweeps._RUN_DISTANCE
    assert marks == [
        (1.0, 0.0, "none"),
        (0.0, 1.0, "full"),
        (pytest.approx(1 - distance), 1.0, "full"),
        (1.0, 1.0, "left"),
        (pytest.approx(1 + distance), 1.0, "none"),
    ]
    assert "20%" in output.caption


def narrow_workload(record):
    return record.run.workload.model_copy(update={"initial_limit": 0.01})


def test_curves_are_distinguished_by_the_initial_weights(learning):
    records = learning({(1, 0.1): [LEARNS]})
    narrow = [
        replace(record, run=record.run.model_copy(update={"workload": narrow_workload(record)}))
        for record in learning({(1, 0.1): [FAILS]})
    ]
    assert not any(find_entry(name).needs(records) for name in NAMES)
    both = [*records, *narrow]
    assert [find_entry(name).needs(both) for name in NAMES] == [False, False, True]
    output = learning_sweeps.learning_by_initial_weights_figure(both)
    (axes,) = output.figure.axes
    assert [line.get_ydata()[-1] for line in axes.lines] == pytest.approx([80, 10])
    (legend,) = output.figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["of the network", "uniform within ±0.01"]


def test_runs_without_evaluations_in_training_have_no_learning_figures(records):
    assert not any(find_entry(name).needs(records) for name in NAMES)


def test_the_perplexity_of_a_language_model_has_a_logarithmic_axis(learning):
    records = learning({(1, 0.1): [LEARNS], (2, 0.1): [LEARNS]})
    columns = {"step": [100, 200], "time_s": [0.0, 1.0], "test_perplexity": [900.0, 300.0]}
    for record in records:
        write_table(record.folder / "evaluation.parquet", pa.table(columns))
    output = learning_sweeps.learning_by_workers_figure(records)
    axes = output.figure.axes[0]
    assert axes.get_yscale() == "log"
    assert axes.lines[0].get_ydata().tolist() == [900.0, 300.0]
    assert [find_entry(name).needs(records) for name in NAMES] == [True, False, False]


def with_losses(record, loss):
    """Replace the losses of all workers by a function of the step."""
    steps = record.steps().to_pandas()
    table = pa.Table.from_pandas(steps.assign(loss=loss(steps["step"])), preserve_index=False)
    write_table(record.folder / "steps.parquet", table)
    return record


def test_losses_are_compared_after_as_many_updates(tmp_path):
    changes = {"workers": 3, "sampler_hz": 0, "steps": {"warmup": 1, "timed": 80}}
    late = [
        with_losses(run, lambda step: 1.1 / (1 + 3 * step))
        for run in make_runs(tmp_path, MX, (1.0, 1.0), **changes)
    ]
    early = [
        with_losses(run, lambda step: 1 / (1 + step))
        for run in make_runs(tmp_path, MX_SYNC, (1.0, 1.0), **changes)
    ]
    ratios = loss_ratios([*late, *early])
    assert ratios["ratio"].to_numpy() == pytest.approx(1.1, rel=1e-6)
    assert ratios["updates"].between(30, 81 - 10).all()
    needs = find_entry("loss_by_updates").needs
    assert [needs([*late, *early]), needs(late), needs([*late[:1], *early[:1]])] == [
        True,
        False,
        False,
    ]
    (axes,) = learning_sweeps.loss_by_updates_figure([*late, *early]).figure.axes
    assert len(axes.lines) == 1 + 2 + 1  # no difference, the runs, their median
    assert loss_ratios(late).empty
