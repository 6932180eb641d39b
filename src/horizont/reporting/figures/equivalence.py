"""Distances between the frameworks, from the initial weights to the updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from horizont.config.system import DEFAULT, parse_trainer_name
from horizont.equivalence.certificate import EquivalenceCertificate
from horizont.equivalence.evidence import mute_counts
from horizont.reporting import labels, style
from horizont.reporting.output import Message, Stack, TableOutput, Verdict
from horizont.reporting.registry import Drawing, figure, no_drawing, table
from horizont.reporting.tables import format_table, text_table
from horizont.wording import counted

#: Checks that compare two trainers.
PAIR_CHECKS = ("frameworks", "variant")

_STAGE_LABELS = {"step_loss": "losses", "batch": "batches", "rate": "rates"}

#: What each check of the comparator would find.
_CHECK_LABELS = {
    "finite": "all numbers are finite",
    "repeat": "the same training again",
    "noise": "no framework is noisier than the others",
    "precision": "all bits of float32 are used",
    "rows": "rows of a batch permuted",
    "frameworks": "pairs of frameworks",
    "variant": "variants with their framework",
    "reference": "inputs and loss by NumPy",
    "instrumented": "instrumented steps",
    "profiled": "profiled steps",
}

#: Position of an exact zero on the logarithmic axis.
_PLOTTED_ZERO = 1e-18

#: Left edge of the figure of margins.
_LEAST_MARGIN = 1e-6


@figure("distances", title="Distances")
def distance_figure(rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """Largest distance over all tensors between two frameworks, relative to the norm of the tensor:
    from the initial weights to the updates after some steps, then losses, running statistics,
    states and the steps with the batch sizes and learning rates of the study. The horizontal
    strokes are the bounds. The grey bars show the distance of a framework from itself under
    different rounding. A red ring marks a pair that exceeds its bound.
    """
    distances = pd.DataFrame([row for row in rows if row["check"] in PAIR_CHECKS])
    # Statistics and states accompany the updates, steps of other batch sizes or learning rates are
    # one group: one position for all steps.
    grouped = ["step_loss", "statistics", "state", "optimizer", "batch", "rate"]
    is_state = distances["quantity"].isin(grouped)
    plotted = distances.assign(step=distances["step"].where(~is_state, 0))
    plot = style.new_figure(4.2)
    panels = plot.subplots(1, 2, sharey=True)
    for axes, dtype in zip(panels, ("float64", "float32"), strict=True):
        _plot_distance_panel(axes, plotted[plotted["dtype"] == dtype])
        axes.set_title(dtype)
    panels[0].set_ylabel("distance, relative")
    panels[0].set_ylim(_PLOTTED_ZERO / 4, 10)
    powers = [1e-15, 1e-12, 1e-9, 1e-6, 1e-3]
    ticks = [f"{power:.0e}".replace("e-0", "e-") for power in powers]
    panels[0].set_yticks([_PLOTTED_ZERO, *powers, 1], labels=["equal", *ticks, "1"])
    panels[0].minorticks_off()
    plot.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=5)
    return Drawing(plot, distances)


def _plot_distance_panel(axes: Axes, rows: pd.DataFrame) -> None:
    """Plot the largest distance by pair, in the order of computation."""
    axes.set_yscale("log")
    style.grid_axis(axes, "y")
    stages = rows.groupby(["quantity", "step"], sort=False)
    rows = rows.assign(position=stages.ngroup())
    columns = {"distance": "max", "ok": "all"}
    worst = rows.groupby(["pair", "position"], as_index=False).agg(columns)
    pairs = list(worst.groupby("pair"))
    for number, (pair, own) in enumerate(pairs):
        _plot_pair(axes, own, str(pair), number, 0.22 * (number - (len(pairs) - 1) / 2))
    limits = stages[["bound", "noise"]].max().astype(float)
    for position, (bound, noise) in enumerate(limits.to_numpy()):
        ends = [position - 0.42, position + 0.42]
        axes.plot(ends, [max(bound, _PLOTTED_ZERO)] * 2, color=style.FOREGROUND, linewidth=1.4)
        if noise > 0:
            axes.fill_between(ends, _PLOTTED_ZERO / 10, noise, color=style.GRID, linewidth=0)
    axes.plot([], [], color=style.FOREGROUND, linewidth=1.4, label="bound")
    axes.fill_between([], [], [], color=style.GRID, linewidth=0, label="noise")
    stage_labels = [
        f"step {step}" if quantity == "update" else _STAGE_LABELS.get(quantity, quantity)
        for quantity, step in limits.index
    ]
    axes.set_xticks(range(len(limits)), labels=stage_labels)
    style.set_slanted_labels(axes)
    axes.set_xlim(-0.8, max(len(limits) - 0.2, 0.8))


def _plot_pair(axes: Axes, rows: pd.DataFrame, pair: str, number: int, shift: float) -> None:
    heights = rows["distance"].clip(_PLOTTED_ZERO, 5.0)
    positions = rows["position"] + shift
    index = number % len(style.PAIR_MARKERS)
    marker, colour = style.PAIR_MARKERS[index], style.PAIR_COLOURS[index]
    label = labels.pair_label(pair)
    axes.plot(positions, heights, marker, color=colour, markersize=5, label=label)
    exceeds = ~rows["ok"].astype(bool)
    if exceeds.any():
        ring: dict[str, Any] = {"fillstyle": "none", "markersize": 12, "markeredgewidth": 1.6}
        axes.plot(positions[exceeds], heights[exceeds], "o", color="#c8413b", **ring)


@figure("margins", title="Distances and bounds")
def margin_figure(certificates: Sequence[EquivalenceCertificate]) -> Drawing:
    """Distances between two frameworks, or a variant and its framework, relative to their bounds:
    for each workload and quantity the largest, in float64 (filled) and in float32 (hollow). To the
    right of the line, a distance exceeds its bound. Exact agreement is at the left edge.
    """
    if not certificates:
        return no_drawing("the reference has no certificates")
    margins = _margins(certificates)
    names = list(dict.fromkeys(margins["workload"]))
    plot = style.new_figure(0.9 + 0.33 * len(names))
    axes = plot.subplots()
    for dtype, own in margins.groupby("dtype"):
        shift, fill = (-0.14, "full") if dtype == "float64" else (0.14, "none")
        marker: dict[str, Any] = {"color": style.PAIR_COLOURS[0], "alpha": 0.8, "markersize": 4.5}
        used = own["used"].clip(lower=_LEAST_MARGIN)
        axes.plot(used, own["workload"].map(names.index) + shift, "o", fillstyle=fill, **marker)
    axes.axvline(1.0, color=style.FOREGROUND, linewidth=1.4)
    axes.set_xscale("log")
    style.grid_axis(axes, "x")
    axes.set_xticks([_LEAST_MARGIN, 1e-4, 1e-2, 1.0], labels=["equal", "1e-4", "1e-2", "1"])
    axes.minorticks_off()
    axes.set_yticks(range(len(names)), labels=names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("largest distance / bound")
    return Drawing(plot, margins)


def _margins(certificates: Sequence[EquivalenceCertificate]) -> pd.DataFrame:
    """Return the largest ratio of distance and bound by certificate, precision and quantity."""
    frames = (pd.DataFrame(each.rows).assign(workload=_label(each)) for each in certificates)
    rows = pd.concat(frames)
    rows = rows[rows["check"].isin(PAIR_CHECKS) & (rows["bound"] > 0)]
    used = rows.assign(used=rows["distance"] / rows["bound"])
    worst = used.groupby(["workload", "dtype", "quantity"], sort=False)["used"].max().reset_index()
    return worst[["dtype", "quantity", "used", "workload"]]


@table("certificates", title="The certificates")
def certificate_table(certificates: Sequence[EquivalenceCertificate]) -> TableOutput | Message:
    """Build the table of certificates: what was compared, and the share without evidence."""
    if not certificates:
        return Message("The reference has no certificates.")
    rows = [
        {
            "workload": labels.workload_label_from_name(certificate.workload),
            "trained on": _devices(certificate),
            "frameworks": f"{len(certificate.frameworks)}",
            "variants": f"{len(certificate.variants)}",
            "comparisons": f"{len(certificate.rows):,}",
            "failed": f"{sum(not row['ok'] for row in certificate.rows):,}",
            "without evidence": f"{certificate.mute_share:.1%}",
            "result": _result(certificate),
        }
        for certificate in certificates
    ]
    numbers = {"frameworks", "variants", "comparisons", "failed", "without evidence"}
    return text_table(rows, numbers)


def _result(certificate: EquivalenceCertificate) -> str:
    return certificate.verdict.partition(":")[0]


def _devices(certificate: EquivalenceCertificate) -> str:
    """Return where the trainers of a certificate ran: those of a GPU are variants."""
    devices = {parse_trainer_name(variant)[2] for variant in certificate.variants}
    return "CPU and GPU" if "cuda" in devices else "CPU"


def _label(certificate: EquivalenceCertificate) -> str:
    """Return the workload, and the devices unless all is of the CPU."""
    devices, label = _devices(certificate), labels.workload_label_from_name(certificate.workload)
    return label if devices == "CPU" else f"{label} ({devices})"


@table("certificate_findings")
def certificate_sentences(certificates: Sequence[EquivalenceCertificate]) -> Stack:
    """Build the sentence on how many certificates are equivalent, and one on each other."""
    others = [each for each in certificates if _result(each) != "Equivalent"]
    count = f"{len(certificates) - len(others)} of {len(certificates)} certificates"
    summary = Verdict(f"{count} are equivalent.", not others)
    return Stack((summary, *(Message(_finding(each)) for each in others)))


def _finding(certificate: EquivalenceCertificate) -> str:
    """Return what a certificate found, and of which trainers the times are not comparable."""
    failed = [row["subject"] for row in certificate.rows if not row["ok"]]
    sentence = f"{_label(certificate)}. {certificate.verdict}"
    if not failed:
        return sentence
    sentence += f" In all, {counted(len(failed), 'comparison')} failed."
    variants = dict.fromkeys(failed)
    if not set(variants) <= set(certificate.variants):
        return f"{sentence} No times on this workload are comparable."
    names = " and ".join(map(_trainer_in_words, variants))
    return f"{sentence} All are of {names}, whose times are therefore not comparable."


def _trainer_in_words(trainer: str) -> str:
    framework, variant, device = parse_trainer_name(trainer)
    label = labels.trainer_label(framework if variant == DEFAULT else f"{framework}+{variant}")
    return label if device == "cpu" else f"{label} on a GPU"


@table("worst_distances", title="The largest distances")
def worst_distance_table(rows: Sequence[Mapping[str, Any]]) -> TableOutput:
    """Build the table of the rows closest to their bounds, by quantity, step and precision."""
    frame = pd.DataFrame([row for row in rows if row["check"] in PAIR_CHECKS])
    if frame.empty:
        return format_table(frame)
    # The bound of an exact quantity is 0; a distance of 0 from it is as good as possible.
    used = frame["distance"] / frame["bound"].where(frame["bound"] > 0, np.inf)
    used = used.where(frame["ok"], np.inf)
    keys = ["dtype", "quantity", "step"]
    worst = frame.assign(used=used).groupby(keys, sort=False)["used"].idxmax()
    return format_table(frame.loc[worst], [*keys, "tensor", "pair", "distance", "bound"])


@table("checks", title="The checks")
def check_table(rows: Sequence[Mapping[str, Any]]) -> TableOutput:
    """Build the table of the checks: comparisons, failures, and the largest distance of each.

    Checks of single numbers count only what they find: a dash means that they found nothing.
    """
    counted = []
    for check, label in _CHECK_LABELS.items():
        own = [row for row in rows if row["check"] == check]
        evidence = [row for row in own if row["is_evidence"]]
        largest = {
            dtype: max((row["distance"] for row in evidence if row["dtype"] == dtype), default=None)
            for dtype in ("float64", "float32")
        }
        counted.append(
            {
                "check": label,
                "comparisons": str(len(own) or "–"),
                "failed": str(sum(not row["ok"] for row in own)),
                "without evidence": str(len(own) - len(evidence)),
                **{
                    f"distance ({dtype})": "–" if distance is None else f"{distance:.0e}"
                    for dtype, distance in largest.items()
                },
            }
        )
    return text_table(counted, numbers=[*counted[0]][1:])


@table("mute", title="Comparisons without evidence")
def mute_table(rows: Sequence[Mapping[str, Any]]) -> TableOutput | Message:
    """Build the table of tensors in which rounding alone could hide a defect."""
    counts = mute_counts(rows)
    if not counts:
        return Message("Every comparison would show a defect.")
    return format_table(pd.DataFrame(counts))


@table("mutations", title="Seeded defects")
def mutation_table(results: Sequence[Mapping[str, Any]]) -> TableOutput | Message:
    """Build the table of seeded defects, as `horizont.workflow.mutation_test` returns them."""
    if not results:
        return Message("No defects were seeded on this workload; see equivalence.mutations.")
    columns = ["description", "framework", "detected", "check", "quantity", "step", "tensor"]
    return format_table(pd.DataFrame(results), [*columns, "distance"])


@table("replays", title="Replayed asynchronous training")
def replay_table(results: Sequence[Mapping[str, Any]]) -> TableOutput | Message:
    """Build the table of replayed asynchronous runs, as `horizont.workflow.replay` returns them."""
    if not results:
        return Message("No run was replayed on this workload; see equivalence.replay.")
    columns = ["system", "replayed", "updates", "tensor", "distance", "bound", "reason"]
    return format_table(pd.DataFrame(results, columns=columns))
