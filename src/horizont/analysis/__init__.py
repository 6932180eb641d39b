"""From records to tidy tables: runs, throughput, phases, resources, summaries."""

from horizont.analysis.advice import OBJECTIVES, Question
from horizont.analysis.communication import (
    distribution_cost,
    is_strong_scaling,
    link_utilisation,
    scaling,
    staleness,
    theoretical_traffic,
    traffic,
    wire_time,
)
from horizont.analysis.drilldown import LOCAL, Difference, Drilldown, drill_down, drilldowns
from horizont.analysis.faults import fault_outcomes
from horizont.analysis.input import input_metrics, input_pipelines
from horizont.analysis.learning import evaluations, final_metrics, losses, smoothed, time_to_loss
from horizont.analysis.live import LiveRun, Snapshot
from horizont.analysis.operators import (
    OUTSIDE_OPERATORS,
    operator_classes,
    operator_table,
    ordered_classes,
    phases_from_profile,
    profiler_overhead,
)
from horizont.analysis.places import find_runs
from horizont.analysis.resources import (
    RESOURCES,
    SEGMENTS,
    TOTAL,
    label_processes,
    resource_series,
    resource_totals,
    run_resource_series,
    segments,
)
from horizont.analysis.runs import (
    NO_CERTIFICATE_GIVEN,
    PHASES_AND_OTHER,
    CertificateStatus,
    run_table,
    startup_times,
    systems_of,
)
from horizont.analysis.scalars import scalars
from horizont.analysis.steps import GROUP_SEPARATOR, instrumentation_overhead, phases, phases_by_run
from horizont.analysis.throughput import (
    format_summary,
    from_metrics,
    metrics,
    summary,
    throughput_by_run,
    throughput_by_system,
)
from horizont.analysis.verdicts import NOT_COMPARABLE, Pair, pairs, pairwise_verdicts, stability

__all__ = [
    "GROUP_SEPARATOR",
    "LOCAL",
    "NOT_COMPARABLE",
    "NO_CERTIFICATE_GIVEN",
    "OUTSIDE_OPERATORS",
    "PHASES_AND_OTHER",
    "RESOURCES",
    "SEGMENTS",
    "TOTAL",
    "OBJECTIVES",
    "Difference",
    "Drilldown",
    "LiveRun",
    "Pair",
    "CertificateStatus",
    "Question",
    "Snapshot",
    "distribution_cost",
    "label_processes",
    "resource_series",
    "drill_down",
    "drilldowns",
    "find_runs",
    "from_metrics",
    "fault_outcomes",
    "input_metrics",
    "input_pipelines",
    "is_strong_scaling",
    "evaluations",
    "losses",
    "metrics",
    "operator_classes",
    "operator_table",
    "ordered_classes",
    "pairs",
    "phases",
    "format_summary",
    "phases_from_profile",
    "profiler_overhead",
    "final_metrics",
    "resource_totals",
    "run_resource_series",
    "phases_by_run",
    "throughput_by_run",
    "run_table",
    "scalars",
    "scaling",
    "segments",
    "smoothed",
    "stability",
    "staleness",
    "startup_times",
    "instrumentation_overhead",
    "summary",
    "systems_of",
    "throughput_by_system",
    "time_to_loss",
    "traffic",
    "link_utilisation",
    "pairwise_verdicts",
    "theoretical_traffic",
    "wire_time",
]
