"""The batch script that runs a study under Slurm, and resumes it after a time limit."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

from horizont.errors import INTERRUPTED, UserError
from horizont.workflow.check import load_study
from horizont.workflow.paths import Paths

#: Slurm's clock for signals before the time limit has a resolution of a minute, and starts late; a
#: notebook needs some seconds to be saved.
NOTICE_S = 120

LONGEST_MINUTES = 60 * 24 * 30

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=horizont
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time={minutes}
#SBATCH --signal=B:USR1@{notice_s}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=horizont-%j.log
{partition}
# Two minutes before the time limit the study is interrupted: it keeps all finished runs, and goes
# on where it stopped when the job is started again.
cd {root}
echo "$(date '+%F %T'): job $SLURM_JOB_ID runs the study of $PWD on $SLURM_JOB_NODELIST"
set -m    # a job of its own: otherwise the study and its children would ignore SIGINT
{program} repro &
study=$!
time_is_up=
trap 'time_is_up=yes; kill -TERM $study' USR1
trap 'kill -TERM $study' TERM    # scancel
wait $study
status=$?
while kill -0 $study 2>/dev/null; do    # a trap has interrupted the wait
    wait $study
    status=$?
done
# The study may have finished meanwhile.
if [ -n "$time_is_up" ] && [ "$status" = {interrupted} ]; then
    echo "interrupted before the time limit; the job is queued again"
    scontrol requeue "$SLURM_JOB_ID"
fi
exit $status
"""


def write_batch_script(paths: Paths, minutes: int, partition: str) -> Path:
    """Write ``horizont.sbatch`` for the nodes that the runs of the study need."""
    least = 2 * NOTICE_S // 60
    if not least < minutes <= LONGEST_MINUTES:
        raise UserError("--minutes", minutes, f"above {least}, up to {LONGEST_MINUTES}")
    if not re.fullmatch(r"[\w.,-]*", partition):
        raise UserError("--partition", partition, "the name of a partition")
    study = load_study(paths)
    nodes = max(
        (
            len(run.topology.all_hosts)
            for workload in study.workloads
            for run in study.runs_on(workload)
            if run.topology.launcher == "slurm"
        ),
        default=0,
    )
    if not nodes:
        allowed = "slurm in an experiment; see `horizont config use PROFILE --launcher slurm`"
        raise UserError("topology.launcher", "local or emulated", allowed)
    script = SCRIPT.format(
        nodes=nodes,
        minutes=minutes,
        notice_s=NOTICE_S,
        interrupted=INTERRUPTED,
        partition=f"#SBATCH --partition={partition}" if partition else "",
        root=shlex.quote(str(paths.root.resolve())),
        program=shlex.quote(str(Path(sys.executable).with_name("horizont"))),
    )
    path = paths.root / "horizont.sbatch"
    path.write_text(script, encoding="utf-8")
    return path
