"""From a run to its processes: planned first, then started, watched and ended as a whole."""

from horizont.cluster.alone import run_side_by_side, run_together
from horizont.cluster.execute import Place, execute
from horizont.cluster.plan import Plan, PlannedProcess, plan_run, plan_trace
from horizont.cluster.ports import holding_ports
from horizont.cluster.watch import RunFailed

__all__ = [
    "Place",
    "Plan",
    "PlannedProcess",
    "RunFailed",
    "execute",
    "holding_ports",
    "plan_run",
    "plan_trace",
    "run_side_by_side",
    "run_together",
]
