"""Every figure draws, says what is missing, and keeps its text as text."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from record_maker import make_comparisons, make_records, make_study

from horizont import reporting
from horizont.analysis import runs, steps, throughput
from horizont.config.system import FRAMEWORKS, all_systems
from horizont.networks.catalogue import build_network
from horizont.networks.network import summary
from horizont.networks.weights import parameter_count
from horizont.reporting import figures, labels, style
from horizont.reporting.figures.throughput import set_log_scale
from horizont.reporting.style import inline_svg
from horizont.workflow.mutation_test import MutationResult

pytestmark = pytest.mark.filterwarnings("error")

IMAGES = SimpleNamespace(kind="image", best_accuracy=0.8, best_perplexity=None)

OF_RECORDS = [
    reporting.phase_figure,
    reporting.throughput_figure,
    reporting.loss_figure,
    lambda records: reporting.evaluation_figure(records, IMAGES),
    reporting.startup_figure,
]


def shown(picture):
    """The text that a reader of the picture sees."""
    tree = ElementTree.fromstring(picture.svg().encode())
    return " ".join(
        "".join(node.itertext()) for node in tree.iter("{http://www.w3.org/2000/svg}text")
    )


@pytest.mark.parametrize("draw", OF_RECORDS)
def test_draws_without_a_warning_and_with_a_caption(records, draw):
    picture = draw(records)
    assert picture.caption.endswith(".")
    assert "PyTorch" in shown(picture)


def test_traffic_is_drawn_by_host_beside_the_theory():
    row = {"system": "pytorch/sync/allreduce", "sent_bytes": 2.1e6, "received_bytes": 2.2e6}
    row |= {"sent_theory_bytes": 2e6, "received_theory_bytes": 2e6}
    table = pd.DataFrame([{**row, "host": host} for host in ("host-0", "host-1")])
    figure = figures.traffic_dots(table)
    sent, received = figure.axes
    assert len(sent.lines) == len(received.lines) == 4
    assert "MiB sent" in shown(reporting.FigureOutput(figure, "t", "t"))


def test_links_are_drawn_from_slow_to_free():
    rows = [
        ("pytorch/sync/allreduce", None, 0.1, 0.0),
        ("pytorch/sync/allreduce", 100.0, 5.0, 4.7),
        ("pytorch/sync/parameter_server", 100.0, 9.0, 7.0),
    ]
    columns = ["system", "rate_mbit", "step_s", "wire_s"]
    figure = figures.link_curves(pd.DataFrame(rows, columns=columns))
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["100 Mbit/s", "no limit"]
    assert "needs at least" in shown(reporting.FigureOutput(figure, "l", "l"))


def test_crowded_points_are_open():
    rows = [
        ("mxnet/async/parameter_server", servers, 5, workers, 10.0 * workers, workers / 2, crowded)
        for servers in (1, 2)
        for workers, crowded in ((1, False), (8, True))
    ]
    columns = [
        "system",
        "servers",
        "batch",
        "workers",
        "examples_per_s",
        "speedup",
        "oversubscribed",
    ]
    table = pd.DataFrame(rows, columns=columns)
    table = table.assign(low=table["examples_per_s"], high=table["examples_per_s"])
    table = table.assign(speedup_low=table["speedup"], speedup_high=table["speedup"])
    figure = figures.scaling_curves(table, strong=False)
    marks = [line for line in figure.axes[0].lines if line.get_marker() == "D"]
    assert [line.get_markerfacecolor() == style.BACKGROUND for line in marks] == [False, True] * 2
    assert "2 servers" in shown(reporting.FigureOutput(figure, "s", "s"))


@pytest.mark.parametrize("draw", OF_RECORDS)
def test_a_build_is_drawn_beside_its_plain_system(tmp_path, draw):
    names = ["pytorch/local", "pytorch/local+channels_last", "pytorch/local+compiled"]
    records = make_records(tmp_path, "local", blocks=1, systems=names)
    assert {"channels last", "torch.compile"} <= set(
        re.findall("channels last|torch.compile", shown(draw(records)))
    )


def test_no_two_systems_look_alike():
    for framework in FRAMEWORKS:
        alone = [name for name in all_systems() if name.startswith(f"{framework}/local")]
        assert len({style.system_colour(name) for name in alone}) == len(alone)
        assert len({style.marker_style(name)["fillstyle"] for name in alone}) == len(alone)
    assert len({labels.system_label(name) for name in all_systems()}) == len(all_systems())


def test_looks_are_drawn_beside_the_best():
    rows = [("pytorch/local", 0, "perplexity", 900.0 / step, step, step / 10) for step in (1, 2, 4)]
    columns = ["system", "block", "metric", "value", "examples", "time_s"]
    figure = figures.evaluation_curves(pd.DataFrame(rows, columns=columns), best=143.0)
    for axes in figure.axes:
        curve, best = axes.lines
        assert curve.get_ydata().tolist() == [900.0, 450.0, 225.0]
        assert best.get_ydata()[0] == 143.0
    assert "test perplexity" in shown(reporting.FigureOutput(figure, "s", "s"))


def test_perplexities_are_marked_on_their_own_scale():
    rows = [("pytorch/local", "perplexity", 200.0), ("mxnet/local", "perplexity", 220.0)]
    table = pd.DataFrame(rows, columns=["system", "metric", "value"])
    figure = figures.final_metric_dots(table, best=143.0)
    marks = [list(line.get_xdata()) for line in figure.axes[0].lines]
    assert marks[:2] == [[200.0], [220.0]]
    assert figure.axes[0].get_xscale() == "log"


def test_staleness_is_drawn_with_the_systems_that_told_it():
    rows = [("pytorch/async/parameter_server", value, 4, 0.5) for value in (0, 1)]
    table = pd.DataFrame(rows, columns=["system", "staleness", "updates", "fraction"])
    figure = figures.staleness_bars(table)
    assert [round(bar.get_height(), 3) for bar in figure.axes[0].patches] == [0.5, 0.5]
    assert "PyTorch, asynchronous" in shown(reporting.FigureOutput(figure, "s", "s"))


def test_staleness_that_was_not_recorded_is_said(records):
    assert "no updates were recorded" in shown(reporting.staleness_figure(records))


@pytest.mark.parametrize("draw", OF_RECORDS)
def test_draws_an_experiment_without_a_good_run(hopeless, draw):
    draw(hopeless).svg()


@pytest.mark.parametrize("draw", [reporting.phase_figure, reporting.throughput_figure])
def test_a_failed_system_keeps_its_row_and_its_reason(records, draw):
    assert "failed: worker-1 ended" in shown(draw(records))


def test_phases_that_are_not_told_apart_are_named(records):
    assert "not apart: waiting, update" in shown(reporting.phase_figure(records))


def test_resources_show_every_process_and_segment(records):
    pictures = reporting.resource_figures(records)
    assert len(pictures) == 4  # the fifth system failed
    text = shown(next(p for p in pictures if "mxnet" in p.name))
    for word in ("worker-0", "worker-1", "server-0", "warm-up", "timed", "instrumented", "CPU"):
        assert word in text
    assert "CPU, % of a core: whole cluster" in text


def test_every_run_has_its_resources_charted_once(records):
    every = [*reporting.resource_figures(records), *reporting.other_resource_figures(records)]
    assert len({picture.name for picture in every}) == len(every) == 4 * 3


def test_a_distance_beyond_its_bound_is_ringed():
    ring = "#c8413b"
    good = reporting.distance_figure(make_comparisons().to_dict("records")).svg()
    bad = reporting.distance_figure(make_comparisons(diverges=True).to_dict("records")).svg()
    assert ring not in good
    assert ring in bad


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("synthetic", [True, False])
def test_samples_say_if_they_are_made_up(channels, synthetic):
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (60, channels, 28, 28), dtype=np.uint8)
    figure = figures.sample_sheet(images, np.arange(60) % 10, synthetic=synthetic)
    assert (
        figures.samples.SYNTHETIC in reporting.FigureOutput(figure, "s", "s").svg()
    ) == synthetic


def test_headline_is_drawn_from_metrics_alone(records):
    assert "No experiment" in reporting.overview_figure({}).svg()
    assert "none was compared" in reporting.result_table(make_study(), {}, {}).cells["system"][0]
    picture = reporting.overview_figure(
        {"One": throughput.metrics(records), "Two": throughput.metrics(records)}
    )
    assert "One" in shown(picture)
    assert "failed: worker-1" in shown(picture)
    assert "prefers-color-scheme: dark" in picture.svg()


def test_same_table_gives_the_same_file(records):
    assert reporting.phase_figure(records).svg() == reporting.phase_figure(records).svg()


def test_inline_figures_do_not_share_names(records):
    one = inline_svg(reporting.phase_figure(records).figure, "one")
    two = inline_svg(reporting.loss_figure(records).figure, "two")
    names = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (one, two)]
    assert names[0].isdisjoint(names[1])
    for text, own in zip((one, two), names, strict=True):
        used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text))
        assert {first or second for first, second in used} <= own


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(
    "parts",
    [
        ("load", "forward"),
        ("forward", "backward"),
        ("waiting", "communication"),
        ("communication", "update"),
        ("backward", "waiting"),
    ],
)
def test_neighbouring_phases_differ_in_lightness(parts):
    low, high = sorted(luminance(style.PHASE_COLOURS[part]) for part in parts)
    assert (high + 0.05) / (low + 0.05) > 1.15


def test_text_is_readable_on_both_pages():
    for ink, page in (
        (style.FOREGROUND, "#ffffff"),
        (style.DARK_COLOURS[style.FOREGROUND], "#121820"),
    ):
        low, high = sorted((luminance(ink), luminance(page)))
        assert (high + 0.05) / (low + 0.05) > 7


def test_tables_show_failures_and_dashes(records):
    metrics = throughput.metrics(records, {"pytorch": "verified"})
    page = reporting.speed_table(metrics).html()
    assert "failed: worker-1" in page
    assert ">yes<" in page
    assert ">no<" in page
    assert "–" in reporting.phase_table(steps.phases(records)).html()
    assert "not comparable" in reporting.format_table(runs.run_table(records)).html()


@pytest.mark.parametrize("name", ["lenet5", "resnet18", "inception"])
def test_a_network_is_drawn_with_its_arcs(name):
    network = build_network(name, (3, 32, 32), 10)
    rows = summary(network)
    picture = reporting.network_figure(name, rows)
    assert f"{parameter_count(network):,} weights" in picture.caption
    arcs = sum(source < number - 1 for number, row in enumerate(rows) for source in row["sources"])
    wires = picture.figure.axes[0]
    assert len(wires.patches) == arcs
    assert (arcs > 0) == (name != "lenet5")
    assert "convolution" in shown(picture)


def test_a_language_model_is_drawn_with_its_own_kinds_of_layers():
    rows = summary(build_network("lstm", (30,), 10_000))
    picture = reporting.network_figure("lstm", rows)
    assert {"table of words", "LSTM"} <= set(re.findall("table of words|LSTM", shown(picture)))


def test_mistakes_are_told_with_what_became_of_them():
    about = {"quantity": "loss", "step": 0, "tensor": "loss", "pair": "mxnet-pytorch"}
    tried = [
        MutationResult(
            description="loss summed", framework="mxnet", distance=0.9, detected=True, **about
        ),
        MutationResult(
            description="labels off", framework="pytorch", distance=0.0, detected=False, **about
        ),
    ]
    text = reporting.mutation_table(tried)._repr_mimebundle_()["text/html"]
    assert "MXNet" in text
    assert ">yes<" in text
    assert ">no<" in text
    assert (
        "no mistakes were tried" in reporting.mutation_table([])._repr_mimebundle_()["text/plain"]
    )


def test_replays_are_told_with_what_became_of_them(records):
    worst = {"tensor": "fc1.weight", "distance": 1e-7, "bound": 8e-6, "updates": 40}
    rows = [
        {"system": "mxnet/async/parameter_server", "replayed": True, "reason": None, **worst},
        {
            "system": "pytorch/async/parameter_server",
            "replayed": False,
            "reason": "a port is taken",
        },
    ]
    told = [SimpleNamespace(as_row=lambda row=row: row) for row in rows]
    page = reporting.replay_table(told).html()
    assert "fc1.weight" in page
    assert "a port is taken" in page
    assert "nothing was replayed" in reporting.replay_table([])._repr_mimebundle_()["text/plain"]
    assert "No updates" in reporting.staleness_table(records)._repr_mimebundle_()["text/plain"]


def test_the_grey_of_a_distance_is_the_noise():
    rows = make_comparisons().assign(noise=2e-7)
    plain, noisy = figures.distance_chart(make_comparisons()), figures.distance_chart(rows)
    assert len(noisy.axes[0].collections) > len(plain.axes[0].collections)


@pytest.mark.parametrize("span", [(0.06, 0.8), (0.05, 4.0), (0.02, 900.0), (300.0, 420.0)])
def test_numbers_of_a_logarithmic_axis_do_not_touch(span):
    figure = Figure(figsize=(2.9, 1))
    axes = figure.subplots()
    axes.plot(span, (0, 1))
    set_log_scale(axes, "x")
    figure.canvas.draw()
    every = [*axes.get_xticklabels(), *axes.get_xticklabels(minor=True)]
    low, high = axes.get_xlim()
    shown = [each for each in every if each.get_text() and low <= each.get_position()[0] <= high]
    boxes = sorted((each.get_window_extent() for each in shown), key=lambda box: box.x0)
    assert boxes
    assert all(one.x1 < next_one.x0 for one, next_one in itertools.pairwise(boxes))
