"""Nodes that Slurm takes out of service for a while, during the job that runs on them."""

from __future__ import annotations

import getpass
import os
import re
import time

import psutil

from horizont.launchers.slurm import scontrol

OUT_OF_SERVICE_S = 2.0


def may_drain() -> bool:
    """Whether this process belongs to a Slurm job, and its user may change the states of nodes."""
    if "SLURM_JOB_ID" not in os.environ:
        return False
    if os.geteuid() == 0:
        return True
    administrator = re.search(r"SlurmUser\s*=\s*([^\s(]+)", scontrol("show", "config"))
    return administrator is not None and administrator[1] == getpass.getuser()


def drain(process: psutil.Process) -> None:
    """Set the node on which a process runs to drain, and resume it after `OUT_OF_SERVICE_S`."""
    node = process.environ()["SLURMD_NODENAME"]
    scontrol("update", f"NodeName={node}", "State=drain", "Reason=horizont chaos", check=True)
    try:
        time.sleep(OUT_OF_SERVICE_S)
    finally:
        scontrol("update", f"NodeName={node}", "State=resume", check=True)
