"""From a run to its processes: planned first, then started, watched and ended as a whole."""

from horizont.launchers.execute import RunPaths, execute
from horizont.launchers.local import reserve_ports
from horizont.launchers.plan import ProcessPlan, RunPlan, plan_run, plan_trace
from horizont.launchers.supervisor import RunFailed, run_as_group, run_in_parallel

__all__ = [
    "RunPaths",
    "RunPlan",
    "ProcessPlan",
    "RunFailed",
    "execute",
    "reserve_ports",
    "plan_run",
    "plan_trace",
    "run_in_parallel",
    "run_as_group",
]
