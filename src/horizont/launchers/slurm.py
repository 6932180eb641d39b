"""Launcher `slurm`: an agent on each node of an allocation, started by srun.

The study runs inside the allocation: ``salloc -N3 horizont repro``, or in a batch script.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import replace

from pydantic import model_validator

from horizont.config.topology import Topology
from horizont.errors import UserError
from horizont.launchers.agent.launcher import AgentLauncher, AgentOptions, agent_program
from horizont.launchers.agent.session import Command, Start

FIELD = "topology.options.srun"

#: States of a job that was ended; which of them is known once it is no longer completing.
_END_STATES = ("CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "PREEMPTED", "TIMEOUT")
_STATE_QUERIES, _STATE_INTERVAL_S = 10, 0.2


class SlurmOptions(AgentOptions):
    """Options of the launcher.

    Attributes
    ----------
    srun
        Further options of srun, such as ``--mem=0``.
    """

    srun: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_srun(self) -> SlurmOptions:
        for option in self.srun:
            if re.match(r"--(nodes|ntasks)\b(?!-per)|-[Nn]", option):
                raise UserError("srun", option, "options other than those of the launcher")
        return self


class SlurmLauncher(AgentLauncher):
    """The nodes of the Slurm job in which this process runs."""

    Options = SlurmOptions

    def unavailable_reason(self, topology: Topology) -> str:
        """Return what the allocation lacks; empty if it can be used."""
        if shutil.which("srun") is None:
            return "srun is not installed"
        nodes, needed = _allocated_nodes(), len(topology.all_hosts)
        if not nodes:
            return "this is no Slurm job; start it with salloc or sbatch"
        if nodes < needed:
            return f"the Slurm job has {nodes} of the {needed} nodes that are needed"
        return ""

    def start(self, topology: Topology, options: AgentOptions) -> Start:
        """Return how the agents are started: one on each node of the job, with all of its CPUs."""
        assert isinstance(options, SlurmOptions)
        nodes = _allocated_nodes()
        command = (
            "srun",
            "--quiet",
            f"--nodes={nodes}",
            f"--ntasks={nodes}",
            "--ntasks-per-node=1",
            "--kill-on-bad-exit=0",  # a lost agent is reported, the others finish the run
            "--overlap",
            "--cpu-bind=none",  # the processes of a run set their own threads
            *(() if any(word.startswith(("-c", "--cpus-per-task")) for word in options.srun)
              else _all_cpus()),
            *options.srun,
            *agent_program(),
        )  # fmt: skip
        start = self._start(FIELD, (Command(command),), (_last_node_address(),), nodes, options)
        return replace(start, exclusive_hosts=_has_exclusive_nodes(), explain_loss=_end_of_job)


LAUNCHER = SlurmLauncher()


def _allocated_nodes() -> int:
    """Return the number of nodes of the job; 0 outside a job."""
    return int(os.environ.get("SLURM_JOB_NUM_NODES", "0") or 0)


def _end_of_job() -> str:
    """Return how the job was ended, such as ``NODE_FAIL``; nothing while it is running."""
    for _ in range(_STATE_QUERIES):
        state = re.search(r"JobState=(\w+)", _describe_job())
        if state is not None and state[1] in _END_STATES:
            return f"Slurm has ended job {_job_id()}: {state[1]}"
        if state is None or state[1] != "COMPLETING":
            return ""
        time.sleep(_STATE_INTERVAL_S)
    return f"Slurm has ended job {_job_id()}"


def _has_exclusive_nodes() -> bool | None:
    """Whether the job was submitted as exclusive; None if Slurm does not say."""
    sharing = re.search(r"OverSubscribe=(\S+)", _describe_job())
    return None if sharing is None else sharing[1] == "NO"


def _all_cpus() -> tuple[str, ...]:
    """Return the option without which a step gets a single core of each node."""
    # "4(x2),2": four on each of two nodes, two on the third; a step takes the same on all.
    counts = os.environ.get("SLURM_JOB_CPUS_PER_NODE", "")
    numbers = [int(part.partition("(")[0]) for part in counts.split(",") if part]
    return (f"--cpus-per-task={min(numbers)}",) if numbers else ()


def _last_node_address() -> str:
    """Return the address of the last node of the job: a batch script runs on the first."""
    names = scontrol("show", "hostnames", os.environ.get("SLURM_JOB_NODELIST", "")).split()
    if not names:
        return "localhost"
    address = re.search(r"NodeAddr=(\S+)", scontrol("show", "node", names[-1]))
    return address[1] if address else names[-1]


def _job_id() -> str:
    return os.environ.get("SLURM_JOB_ID", "")


def _describe_job() -> str:
    return scontrol("show", "job", _job_id())


def scontrol(*words: str, check: bool = False) -> str:
    """Return what scontrol prints; if it fails, nothing, as srun will report it, unless checked."""
    command = ["scontrol", *words]
    return subprocess.run(command, capture_output=True, text=True, check=check).stdout
