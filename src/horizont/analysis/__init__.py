"""Tables from records: runs, throughput, phases, resources, communication, verdicts."""

from horizont.analysis.advice import Question
from horizont.analysis.communication import (
    distribution_cost,
    link_utilisation,
    staleness,
    theoretical_traffic,
    traffic,
    wire_time,
)
from horizont.analysis.drilldown import drill_down, drilldowns
from horizont.analysis.faults import fault_outcomes
from horizont.analysis.input import input_pipelines
from horizont.analysis.learning import evaluations, final_metrics, losses, smoothed, time_to_loss
from horizont.analysis.operators import (
    OUTSIDE_OPERATORS,
    operator_classes,
    operator_table,
    ordered_classes,
    phases_from_profile,
    profiler_overhead,
)
from horizont.analysis.resources import (
    RESOURCES,
    TOTAL,
    label_processes,
    resource_series,
    resource_totals,
    run_resource_series,
    segments,
)
from horizont.analysis.runs import run_table, startup_times, systems_of
from horizont.analysis.scaling import is_strong_scaling, scaling
from horizont.analysis.steps import instrumentation_overhead, phases, phases_by_run
from horizont.analysis.throughput import (
    format_summary,
    from_metrics,
    metrics,
    summary,
    throughput_by_run,
    throughput_by_system,
)
from horizont.analysis.verdicts import pairs, pairwise_verdicts, stability

# fmt: off
__all__ = [
    "OUTSIDE_OPERATORS", "RESOURCES", "TOTAL", "Question",
    "distribution_cost", "drill_down", "drilldowns", "evaluations", "fault_outcomes",
    "final_metrics", "format_summary", "from_metrics", "input_pipelines",
    "instrumentation_overhead", "is_strong_scaling", "label_processes", "link_utilisation",
    "losses", "metrics", "operator_classes", "operator_table", "ordered_classes", "pairs",
    "pairwise_verdicts", "phases", "phases_by_run", "phases_from_profile", "profiler_overhead",
    "resource_series", "resource_totals", "run_resource_series", "run_table",
    "scaling", "segments", "smoothed", "stability", "staleness", "startup_times", "summary",
    "systems_of", "theoretical_traffic", "throughput_by_run", "throughput_by_system",
    "time_to_loss", "traffic", "wire_time",
]
