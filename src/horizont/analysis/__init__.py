"""From records to tidy tables: runs, throughput, phases, resources, summaries."""

from horizont.analysis.advice import WISHES, Question
from horizont.analysis.budget import budget
from horizont.analysis.difference import Difference
from horizont.analysis.drilldown import LOCAL, Drilldown, drill, drilldowns
from horizont.analysis.frames import PARTS, systems_of
from horizont.analysis.goal import time_to_loss
from horizont.analysis.incidents import incidents
from horizont.analysis.input import input_metrics, inputs
from horizont.analysis.learning import looks, losses, qualities, smoothed
from horizont.analysis.live import LiveRun, Snapshot
from horizont.analysis.metrics import from_metrics, metrics
from horizont.analysis.operators import (
    OUTSIDE,
    operator_classes,
    operators,
    ordered_classes,
    profile_phases,
    profile_times,
)
from horizont.analysis.parts import AND
from horizont.analysis.phases import phases, run_parts, step_times
from horizont.analysis.places import find_runs
from horizont.analysis.resources import (
    RESOURCES,
    WHOLE,
    by_process,
    charts,
    resource_totals,
    resources,
)
from horizont.analysis.runs import NO_PROOF, ProofStatus, runs, startup
from horizont.analysis.scalars import scalars
from horizont.analysis.scaling import is_strong, scaling
from horizont.analysis.segments import SEGMENTS, segments
from horizont.analysis.stability import stability
from horizont.analysis.staleness import staleness
from horizont.analysis.summary import printable, summary
from horizont.analysis.throughput import run_throughput, throughput
from horizont.analysis.traffic import traffic, transfers
from horizont.analysis.verdicts import NOT_COMPARABLE, Pair, pairs, verdicts
from horizont.analysis.wire import volumes, wire_s

__all__ = [
    "AND",
    "LOCAL",
    "NOT_COMPARABLE",
    "NO_PROOF",
    "OUTSIDE",
    "PARTS",
    "RESOURCES",
    "SEGMENTS",
    "WHOLE",
    "WISHES",
    "Difference",
    "Drilldown",
    "LiveRun",
    "Pair",
    "ProofStatus",
    "Question",
    "Snapshot",
    "budget",
    "by_process",
    "charts",
    "drill",
    "drilldowns",
    "find_runs",
    "from_metrics",
    "incidents",
    "input_metrics",
    "inputs",
    "is_strong",
    "looks",
    "losses",
    "metrics",
    "operator_classes",
    "operators",
    "ordered_classes",
    "pairs",
    "phases",
    "printable",
    "profile_phases",
    "profile_times",
    "qualities",
    "resource_totals",
    "resources",
    "run_parts",
    "run_throughput",
    "runs",
    "scalars",
    "scaling",
    "segments",
    "smoothed",
    "stability",
    "staleness",
    "startup",
    "step_times",
    "summary",
    "systems_of",
    "throughput",
    "time_to_loss",
    "traffic",
    "transfers",
    "verdicts",
    "volumes",
    "wire_s",
]
