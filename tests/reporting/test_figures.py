"""Figures: they draw without warnings, annotate what is missing, and keep text as text."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from record_maker import make_comparisons, make_record, make_records, make_study

from horizont.analysis.claims.findings import VERDICTS
from horizont.analysis.runs import run_table
from horizont.analysis.throughput import metrics
from horizont.config.system import FRAMEWORKS, all_systems
from horizont.networks.catalogue import build_network
from horizont.networks.network import summary
from horizont.networks.weights import weight_shapes
from horizont.reporting import labels, style
from horizont.reporting.figures import communication, learning, scaling
from horizont.reporting.figures.equivalence import (
    check_table,
    distance_figure,
    mutation_table,
    mute_table,
    replay_table,
)
from horizont.reporting.figures.learning import (
    evaluation_curves,
    evaluation_figure,
    final_metric_dots,
    learning_curves,
    loss_figure,
)
from horizont.reporting.figures.networks import network_comparison_figure
from horizont.reporting.figures.phases import (
    phase_figure,
    phase_table,
    startup_figure,
    throughput_figure,
)
from horizont.reporting.figures.published import VERDICT_STYLES, claim_grid
from horizont.reporting.figures.resources import other_resource_figures, resource_figures
from horizont.reporting.figures.workload import SYNTHETIC_BANNER, image_samples, network_figure
from horizont.reporting.output import FigureOutput
from horizont.reporting.overview import overview_figure, speed_table
from horizont.reporting.style import set_log_scale
from horizont.reporting.svg import inline_svg, standalone_svg
from horizont.reporting.tables import format_table

pytestmark = pytest.mark.filterwarnings("error")

IMAGES = SimpleNamespace(kind="image", best_accuracy=0.8, best_perplexity=None)

OF_RECORDS = [
    phase_figure,
    throughput_figure,
    loss_figure,
    lambda records: evaluation_figure(records, IMAGES),
    startup_figure,
]


def text_of(output):
    """Return the text that a reader of the figure sees."""
    tree = ElementTree.fromstring(output.svg().encode())
    return " ".join(
        "".join(node.itertext()) for node in tree.iter("{http://www.w3.org/2000/svg}text")
    )


def chart_text(figure):
    return text_of(FigureOutput(figure, "name", "caption"))


@pytest.mark.parametrize("plot", OF_RECORDS)
def test_figures_have_captions_and_data(records, plot):
    output = plot(records)
    assert output.caption.endswith(".")
    assert "{" not in output.caption
    assert len(output.data)
    assert "PyTorch" in text_of(output)


def test_without_evaluations_there_is_nothing_to_draw(monkeypatch):
    monkeypatch.setattr(learning, "final_metrics", lambda records: pd.DataFrame())
    output = evaluation_figure([], IMAGES)
    assert "the runs were not evaluated" in text_of(output)


def test_traffic_is_plotted_by_host_beside_the_theory(monkeypatch):
    row = {"system": "pytorch/sync/allreduce", "sent_bytes": 2.1e6, "received_bytes": 2.2e6}
    row |= {"sent_theory_bytes": 2e6, "received_theory_bytes": 2e6}
    table = pd.DataFrame([{**row, "host": host} for host in ("host-0", "host-1")])
    monkeypatch.setattr(communication, "traffic", lambda records: table)
    output = communication.traffic_figure([])
    sent, received = output.figure.axes
    assert len(sent.lines) == len(received.lines) == 4
    assert "MiB sent" in text_of(output)


def test_links_are_plotted_from_slow_to_unlimited(monkeypatch):
    rows = [
        ("pytorch/sync/allreduce", None, 0.1, 0.0),
        ("pytorch/sync/allreduce", 100.0, 5.0, 4.7),
        ("pytorch/sync/parameter_server", 100.0, 9.0, 7.0),
    ]
    table = pd.DataFrame(rows, columns=["system", "rate_mbit", "step_s", "wire_s"])
    monkeypatch.setattr(communication, "link_utilisation", lambda records: table)
    output = communication.link_figure([])
    (axes,) = output.figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["100 Mbit/s", "no limit"]
    ring, server = axes.lines[:2]
    assert ring.get_ydata() == pytest.approx([5000.0, 100.0])
    assert server.get_ydata() == pytest.approx([9000.0])
    assert "minimum of the busiest link" in text_of(output)


def test_oversubscribed_points_are_hollow(monkeypatch):
    rows = [
        ("mxnet/async/parameter_server", servers, 5, workers, 10.0 * workers, workers / 2, busy)
        for servers in (1, 2)
        for workers, busy in ((1, False), (8, True))
    ]
    columns = ["system", "layout", "batch", "workers", "batches_per_s", "speedup"]
    table = pd.DataFrame(rows, columns=[*columns, "oversubscribed"])
    table = table.assign(low=table["batches_per_s"], high=table["batches_per_s"])
    table = table.assign(speedup_low=table["speedup"], speedup_high=table["speedup"])
    monkeypatch.setattr(scaling, "scaling", lambda records: table)
    output = scaling.scaling_figure([])
    markers = [line for line in output.figure.axes[0].lines if line.get_marker() == "D"]
    hollow = [line.get_markerfacecolor() == style.BACKGROUND for line in markers]
    assert hollow == [False, True] * 2
    assert "2 servers" in text_of(output)


def test_curves_over_time_keep_the_order_of_the_steps():
    steps = [(1, 0.1, 2.0), (2, 0.3, 1.9), (3, 0.2, 1.8)]
    table = pd.DataFrame(steps, columns=["examples", "time_s", "loss"])
    figure = learning_curves(table.assign(system="pytorch/local", block=0), "loss")
    (curve,) = figure.axes[1].lines
    assert curve.get_xdata().tolist() == [0.1, 0.3, 0.2]


@pytest.mark.parametrize("plot", OF_RECORDS)
def test_a_variant_is_plotted_beside_its_default(tmp_path, plot):
    names = ["pytorch/local", "pytorch/local+channels_last", "pytorch/local+compiled"]
    records = make_records(tmp_path, "local", blocks=1, systems=names)
    found = set(re.findall("channels last|torch.compile", text_of(plot(records))))
    assert found == {"channels last", "torch.compile"}


def test_all_systems_have_distinct_styles():
    for framework in FRAMEWORKS:
        alone = [name for name in all_systems() if name.startswith(f"{framework}/local")]
        assert len({style.system_colour(name) for name in alone}) == len(alone)
        assert len({style.marker_style(name)["fillstyle"] for name in alone}) == len(alone)
    assert len({labels.system_label(name) for name in all_systems()}) == len(all_systems())


def test_evaluations_are_plotted_beside_the_best_value():
    rows = [("pytorch/local", 0, "perplexity", 900.0 / step, step, step / 10) for step in (1, 2, 4)]
    columns = ["system", "block", "metric", "value", "examples", "time_s"]
    figure = evaluation_curves(pd.DataFrame(rows, columns=columns), best=143.0)
    for axes in figure.axes:
        curve, best = axes.lines
        assert curve.get_ydata().tolist() == [900.0, 450.0, 225.0]
        assert best.get_ydata()[0] == 143.0
    assert "test perplexity" in chart_text(figure)


def test_perplexities_have_a_logarithmic_scale():
    rows = [("pytorch/local", "perplexity", 200.0), ("mxnet/local", "perplexity", 220.0)]
    table = pd.DataFrame(rows, columns=["system", "metric", "value"])
    figure = final_metric_dots(table, best=143.0)
    marks = [list(line.get_xdata()) for line in figure.axes[0].lines]
    assert marks[:2] == [[200.0], [220.0]]
    assert figure.axes[0].get_xscale() == "log"


def test_staleness_is_plotted_by_system(monkeypatch):
    rows = [("pytorch/async/parameter_server", 2, value, 4, 0.5) for value in (0, 1)]
    columns = ["system", "workers", "staleness", "updates", "fraction"]
    counts = pd.DataFrame(rows, columns=columns)
    monkeypatch.setattr(communication, "staleness", lambda records: counts)
    output = communication.staleness_figure([])
    assert [round(bar.get_height(), 3) for bar in output.figure.axes[0].patches] == [0.5, 0.5]
    assert "PyTorch, asynchronous" in text_of(output)


def test_missing_staleness_is_stated(records):
    assert "no updates were recorded" in text_of(communication.staleness_figure(records))
    assert "No updates" in communication.staleness_table(records).text


@pytest.mark.parametrize("plot", OF_RECORDS)
def test_figures_without_a_successful_run(failed_records, plot):
    plot(failed_records).svg()


@pytest.mark.parametrize("plot", [phase_figure, throughput_figure])
def test_a_failed_system_has_a_row_with_its_reason(records, plot):
    assert "failed: worker-1 ended" in text_of(plot(records))


def test_phases_that_are_not_separate_are_named(records):
    assert "not separate: waiting, update" in text_of(phase_figure(records))


def test_resources_show_every_process_and_segment(records):
    outputs = resource_figures(records).items
    assert len(outputs) == 4  # the fifth system failed
    text = text_of(next(output for output in outputs if "mxnet" in output.name))
    for word in ("worker-0", "worker-1", "server-0", "warm-up", "timed", "instrumented", "CPU"):
        assert word in text
    assert "CPU, % of a core: whole cluster" in text


def test_of_a_sweep_the_first_and_the_largest_run_are_shown(records):
    """A figure for each of its runs would be some megabytes."""
    assert other_resource_figures(records).items == ()
    last = next(record for record in reversed(records) if record.ok)
    run = last.run.model_copy(update={"global_batch": 2 * last.run.global_batch})
    larger = [replace(record, run=run) if record == last else record for record in records]
    (output,) = other_resource_figures(larger).items
    assert last.run.system.slug in output.name
    assert output.name not in {other.name for other in resource_figures(larger).items}
    assert f"(block {last.run.block + 1}" in output.caption


def test_a_distance_beyond_its_bound_has_a_ring():
    ring = "#c8413b"
    assert ring not in distance_figure(make_comparisons().to_dict("records")).svg()
    assert ring in distance_figure(make_comparisons(diverges=True).to_dict("records")).svg()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("synthetic", [True, False])
def test_synthetic_samples_have_a_banner(channels, synthetic):
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (60, channels, 28, 28), dtype=np.uint8)
    source = "synthetic" if synthetic else "real"
    description = SimpleNamespace(name="cifar10", source=source, class_names=())
    data = SimpleNamespace(
        description=description, train_images=images, train_labels=np.arange(60) % 10
    )
    text = text_of(image_samples(data))
    assert (SYNTHETIC_BANNER in text) == synthetic
    assert ("airplane" in text) != synthetic


def test_own_samples_have_the_names_of_their_folders():
    images = np.zeros((4, 3, 8, 8), np.uint8)
    description = SimpleNamespace(name="mine", source="own", class_names=("round", "square"))
    labels = np.array([0, 1, 0, 1])
    data = SimpleNamespace(description=description, train_images=images, train_labels=labels)
    text = text_of(image_samples(data))
    assert "round" in text
    assert "square" in text
    assert SYNTHETIC_BANNER not in text


def test_the_overview_is_plotted_from_metrics_alone(records):
    assert "no experiment" in overview_figure({}).svg()
    results = {"One": metrics(records), "Two": metrics(records)}
    output = overview_figure(results)
    assert "One" in text_of(output)
    assert "failed: worker-1" in text_of(output)
    assert "prefers-color-scheme: dark" in output.svg()


def test_networks_are_compared_with_the_fastest_system_of_each(tmp_path):
    workloads = ("lenet5-cifar10", "lenet-fashion-mnist")
    study = make_study()
    both = study.experiment("local").model_copy(update={"workloads": workloads})
    study = study.model_copy(update={"experiments": {"local": both}})
    records = [
        make_record(tmp_path / workload, number, run)
        for workload in workloads
        for number, run in enumerate(study.runs("local", workload))
    ]
    output = network_comparison_figure(study, records)
    ratios = output.data.groupby("workload")["ratio"]
    assert (ratios.min() == 1).all()
    assert (ratios.max() > 1).all()
    assert "LeNet-5 on CIFAR-10" in text_of(output)
    only = [record for record in records if record.run.workload_name == "lenet5-cifar10"]
    assert network_comparison_figure(study, only).is_left_out


def test_claims_are_marked_by_verdict_and_level():
    verdicts = ["reproduced", "reversed", "not testable", "reproduced"]
    claims = [
        {"id": f"N{19 + number}", "source": "NTUA 2021 5", "verdict": verdict}
        | {"evidence": None if verdict == "not testable" else "AB"[number % 2]}
        for number, verdict in enumerate(verdicts)
    ]
    output = claim_grid(claims)
    axes = output.figure.axes[0]
    marks = [line.get_marker() for line in axes.lines]
    assert marks == ["o", "v", "_", "o"]
    text = text_of(output)
    for words in ("reproduced (2)", "reversed (1)", "not testable (1)", "N22", "NTUA"):
        assert words in text
    assert "not settled" not in text
    assert list(output.data["evidence"].fillna("")) == ["A", "B", "", "B"]
    assert len({colour for colour, _ in VERDICT_STYLES.values()}) == len(VERDICTS)
    assert len({mark for _, mark in VERDICT_STYLES.values()}) == len(VERDICTS)


def test_a_figure_with_nothing_to_show_is_named(failed_records):
    bundle = loss_figure(failed_records)._repr_mimebundle_()
    assert "svg" not in bundle["text/html"]
    assert "because no loss was measured" in bundle["text/plain"]


def test_the_same_records_give_the_same_file(records):
    assert phase_figure(records).svg() == phase_figure(records).svg()


def test_inline_figures_do_not_share_ids(records):
    one = inline_svg(phase_figure(records).figure, "one")
    two = inline_svg(loss_figure(records).figure, "two")
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (one, two)]
    assert ids[0].isdisjoint(ids[1])
    for svg, own in zip((one, two), ids, strict=True):
        used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg))
        assert {first or second for first, second in used} <= own


@pytest.mark.parametrize("convert", [standalone_svg, inline_svg])
def test_a_title_may_contain_any_character(convert):
    title = 'a < b > c & "d"'
    root = ElementTree.fromstring(convert(Figure(), title).encode())
    assert root.get("aria-label") == title
    assert root[0].tag.endswith("style")


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
def test_adjacent_phases_differ_in_lightness(parts):
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
    page = speed_table(records, {"pytorch": "verified"}).html()
    assert "failed: worker-1" in page
    assert ">yes<" in page
    assert ">no<" in page
    assert "–" in phase_table(records).html()
    assert "not comparable" in format_table(run_table(records)).html()


def test_phases_that_no_system_has_are_no_columns(tmp_path):
    one_process = phase_table(make_records(tmp_path, "local")).cells
    assert "backward" in one_process
    assert not {"communication", "waiting"} & set(one_process)


@pytest.mark.parametrize("name", ["lenet5", "resnet18", "inception"])
def test_a_network_is_plotted_with_its_arcs(name):
    network = build_network(name, (3, 32, 32), 10)
    rows = summary(network)
    output = network_figure(name, rows)
    count = sum(map(math.prod, weight_shapes(network).values()))
    assert f"{count:,} weights" in output.caption
    arcs = sum(source < number - 1 for number, row in enumerate(rows) for source in row["sources"])
    connections = output.figure.axes[0]
    assert len(connections.patches) == arcs
    assert (arcs > 0) == (name != "lenet5")
    assert "convolution" in text_of(output)


def test_a_language_model_has_its_own_kinds_of_layers():
    rows = summary(build_network("lstm", (30,), 10_000))
    assert {"embedding", "LSTM"} <= set(text_of(network_figure("lstm", rows)).split())


def test_the_table_of_seeded_defects():
    common = {"quantity": "loss", "step": 0, "tensor": "loss", "pair": "mxnet-pytorch"}
    common["check"] = "frameworks"
    rows = [
        {"description": "loss summed", "framework": "mxnet", "distance": 0.9, "detected": True},
        {"description": "labels off", "framework": "pytorch", "distance": 0.0, "detected": False},
    ]
    results = [common | row for row in rows]
    text = mutation_table(results).html()
    assert "MXNet" in text
    assert ">yes<" in text
    assert ">no<" in text
    assert "No defects were seeded" in mutation_table([]).text


def test_the_table_of_replays():
    worst = {"tensor": "fc1.weight", "distance": 1e-7, "bound": 8e-6, "updates": 40}
    rows = [
        {"system": "mxnet/async/parameter_server", "replayed": True, "reason": None, **worst},
        {
            "system": "pytorch/async/parameter_server",
            "replayed": False,
            "reason": "a port is taken",
        },
    ]
    page = replay_table(rows).html()
    assert "fc1.weight" in page
    assert "a port is taken" in page
    assert "No run was replayed" in replay_table([]).text


def test_the_table_of_checks_counts_comparisons_and_failures():
    rows = make_comparisons(diverges=True).to_dict("records")
    rows.append({**rows[0], "check": "repeat", "ok": True, "is_evidence": False})
    table = check_table(rows).cells.set_index("check")
    failed = sum(not row["ok"] for row in rows)
    assert table.loc["pairs of frameworks", "failed"] == str(failed)
    assert table.loc["the same training again", "without evidence"] == "1"
    assert table.loc["rows of a batch permuted", "distance (float64)"] == "–"


def test_comparisons_without_evidence_are_named():
    rows = make_comparisons().to_dict("records")
    assert "Every comparison" in mute_table(rows).text
    rows[-1]["is_evidence"] = False
    assert rows[-1]["tensor"] in mute_table(rows).html()


def test_the_grey_bar_of_a_distance_is_its_noise():
    rows = make_comparisons()
    plain, noisy = (
        distance_figure(each.to_dict("records")).figure for each in (rows, rows.assign(noise=2e-7))
    )
    assert len(noisy.axes[0].collections) > len(plain.axes[0].collections)


@pytest.mark.parametrize("span", [(0.06, 0.8), (0.05, 4.0), (0.02, 900.0), (300.0, 420.0)])
def test_labels_of_a_logarithmic_axis_do_not_overlap(span):
    figure = Figure(figsize=(2.9, 1))
    axes = figure.subplots()
    axes.plot(span, (0, 1))
    set_log_scale(axes, "x")
    figure.canvas.draw()
    ticks = [*axes.get_xticklabels(), *axes.get_xticklabels(minor=True)]
    low, high = axes.get_xlim()
    visible = [tick for tick in ticks if tick.get_text() and low <= tick.get_position()[0] <= high]
    boxes = sorted((tick.get_window_extent() for tick in visible), key=lambda box: box.x0)
    assert boxes
    assert all(one.x1 < following.x0 for one, following in itertools.pairwise(boxes))
