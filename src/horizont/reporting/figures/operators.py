"""Operators: time by class, the slowest ones, and the cost of the profilers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from horizont.analysis.operators import (
    operator_classes,
    operator_table,
    ordered_classes,
    phases_from_profile,
    profiler_overhead,
)
from horizont.errors import UserError
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.figures.phases import legend_patch, stacked_bar
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import Drawing, figure, table
from horizont.reporting.tables import format_table, format_wide, text_table

_BAR_HEIGHT = 0.6


def _is_profiled(records: Sequence[Record]) -> bool:
    return any(record.is_profiled for record in records)


@figure("operators", title="Operator classes", needs=_is_profiled)
def operator_figure(records: Sequence[Record]) -> Drawing:
    """Time in the operators of one training step by class, from the profiler of each framework:
    self time, without the operators that an operator calls. Light: forward pass, dark: backward
    pass. “Outside operators” is the rest of the profiled step: interpreter, dispatch, scheduling.
    """
    classes = operator_classes(records)
    if classes.empty:
        raise UserError("steps.profiled", 0, "at least 1, and a run that succeeded")
    systems = list(dict.fromkeys(classes["system"]))
    plot = style.new_figure(style.ROW_HEIGHT * len(systems) + 1.75)
    axes = style.row_axes(plot, systems)
    for row, system in enumerate(systems):
        own = classes[classes["system"] == system]
        fills = own["operator_class"].map(style.operator_class_style)
        stacked_bar(axes, row, zip(own["self_s"] * 1e3, fills, strict=True), _BAR_HEIGHT)
    axes.set_xlabel("milliseconds per step")
    axes.set_xlim(left=0)
    names = dict.fromkeys(classes["operator_class"])
    handles = [legend_patch(style.operator_class_style(name), name) for name in names]
    style.legend_above(plot, handles, 3, columnspacing=1.4)
    return Drawing(plot, classes)


@table("operator_classes", title="Operator classes", needs=_is_profiled)
def operator_class_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of milliseconds per step, one row per class and one column per system."""
    classes = operator_classes(records)
    wide = classes.set_index(["operator_class", "system"])["self_s"].unstack(sort=False) * 1e3
    wide = wide.reindex(list(ordered_classes(classes["operator_class"])))
    wide.loc["step"] = wide.sum()
    return format_wide(wide.rename(columns=labels.single_process_label), "milliseconds per step")


@table("slowest_operators", title="The slowest operators", needs=_is_profiled)
def slowest_operator_table(records: Sequence[Record], count: int = 10) -> TableOutput:
    """Build the table of the slowest operators of each system, by their native names."""
    operators = operator_table(records)
    operators["self_ms"] = operators["self_s"] * 1e3
    steps_s = profiler_overhead(records).set_index("system")["profiled_s"]
    rows = [
        {
            "title": labels.single_process_label(str(system)),
            "operator": operator.operator,
            "class": operator.operator_class,
            "inputs": _input_shapes(str(operator.shapes)),
            "calls": f"{operator.calls:g}",
            "ms": f"{operator.self_ms:.2f}",
            "of the step": f"{operator.self_ms / steps_s[system] / 1e3:.1%}",
        }
        for system, own in operators.groupby("system", sort=False)
        for operator in own.head(count).itertuples()
    ]
    return text_table(rows, ("calls", "ms", "of the step"), group_by="title")


def _input_shapes(shapes: str) -> str:
    """Format the shapes of an operator's first two inputs: `42×6×14×14, 16×6×5×5`."""
    found = [shape.replace(", ", "×") for shape in re.findall(r"\[([^][]+)\]", shapes)]
    return ", ".join(found[:2]) if found else "–"


@table("profiler_overhead", title="Profiler overhead", needs=_is_profiled)
def profiler_overhead_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of the profiled step beside the timed one."""
    columns = ["system", "timed_without_load_s", "profiled_s", "profile_ratio", "operators_s"]
    columns += ["operators_fraction", "unclassified_fraction"]
    return format_table(profiler_overhead(records), columns)


@table("profiled_phases", title="Phases of the timed step", needs=_is_profiled)
def profiled_phase_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of the phases of the timed step, as the profile attributes them."""
    return format_table(phases_from_profile(records))
