"""Nodes that Slurm takes out of service for a while, during the job that runs on them."""

from __future__ import annotations

import getpass
import os
import re
import subprocess
import time

import psutil

OUT_OF_SERVICE_S = 2.0


def may_drain() -> bool:
    """Whether this process belongs to a Slurm job, and its user may change the states of nodes."""
    if "SLURM_JOB_ID" not in os.environ:
        return False
    administrator = re.search(r"SlurmUser\s*=\s*([^\s(]+)", _scontrol("show", "config"))
    return os.geteuid() == 0 or (
        administrator is not None and administrator[1] == getpass.getuser()
    )


def drain(process: psutil.Process) -> None:
    """Set the node on which a process runs to drain, and resume it after `OUT_OF_SERVICE_S`."""
    node = process.environ()["SLURMD_NODENAME"]
    _scontrol("update", f"NodeName={node}", "State=drain", "Reason=horizont chaos")
    try:
        time.sleep(OUT_OF_SERVICE_S)
    finally:
        _scontrol("update", f"NodeName={node}", "State=resume")


def _scontrol(*words: str) -> str:
    done = subprocess.run(["scontrol", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"scontrol {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
