"""From records to tidy tables: runs, throughput, phases, resources, summaries."""

from horizont.analysis.budget import budget
from horizont.analysis.frames import PARTS, PHASES, systems_of
from horizont.analysis.goal import time_to_loss
from horizont.analysis.incidents import incidents
from horizont.analysis.input import input_metrics, inputs
from horizont.analysis.learning import looks, losses, qualities, smoothed
from horizont.analysis.metrics import from_metrics, metrics
from horizont.analysis.phases import phases, step_times
from horizont.analysis.resources import RESOURCES, resource_totals, resources, segments
from horizont.analysis.runs import NO_PROOF, ProofStatus, runs, startup
from horizont.analysis.scaling import is_strong, scaling
from horizont.analysis.staleness import staleness
from horizont.analysis.summary import printable, summary
from horizont.analysis.throughput import run_throughput, throughput
from horizont.analysis.traffic import traffic, transfers
from horizont.analysis.wire import volumes, wire_s

__all__ = [
    "NO_PROOF",
    "PARTS",
    "PHASES",
    "RESOURCES",
    "ProofStatus",
    "budget",
    "from_metrics",
    "incidents",
    "input_metrics",
    "inputs",
    "is_strong",
    "looks",
    "losses",
    "metrics",
    "phases",
    "printable",
    "qualities",
    "resource_totals",
    "resources",
    "run_throughput",
    "runs",
    "scaling",
    "segments",
    "smoothed",
    "staleness",
    "startup",
    "step_times",
    "summary",
    "systems_of",
    "throughput",
    "time_to_loss",
    "traffic",
    "transfers",
    "volumes",
    "wire_s",
]
