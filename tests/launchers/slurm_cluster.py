"""A Slurm of three nodes on this machine, for one test module and of whichever user."""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from tests.launchers.agents import require

from horizont.launchers.local import reserve_ports

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch", "sinfo")

NODES = 3

CONFIGURATION = """
ClusterName=horizont
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/linux
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdTimeout=30
KillWait=5
MpiDefault=none
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Start the daemons below a folder with a short path; yield the environment of its commands.

    The test is skipped without Slurm.
    """
    require(*PROGRAMS)
    environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
    (folder / "state").mkdir()
    folder.chmod(0o755)  # munge refuses a socket in a folder that others cannot enter
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    with reserve_ports(["127.0.0.1"] * (NODES + 1), 0) as ports:
        nodes = [
            f"NodeName=node{n} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=2"
            for n, port in enumerate(ports[1:])
        ]
        text = CONFIGURATION.format(
            ports=ports, user=getpass.getuser(), folder=folder, nodes="\n".join(nodes)
        )
        (folder / "slurm.conf").write_text(text, encoding="utf-8")
        try:
            _start_daemons(folder, environment)
            yield environment
        finally:
            _cancel_jobs(environment)
            _stop_daemons(folder)


def _start_daemons(folder: Path, environment: dict[str, str]) -> None:
    files = {"key-file": "key", "socket": "sock", "pid-file": "pid", "log-file": "log"}
    files |= {"seed-file": "seed"}
    options = [f"--{option}={folder}/munge.{name}" for option, name in files.items()]

    def run(*words: str) -> None:
        subprocess.run(words, env=environment, check=True, timeout=60, stdin=subprocess.DEVNULL)

    run("munged", *options)
    run("slurmctld", "-c")
    for number in range(NODES):
        (folder / f"node{number}").mkdir()
        run("slurmd", "-N", f"node{number}")
    end_s = time.monotonic() + 60
    state = ""
    while state != f"idle {NODES}":
        assert time.monotonic() < end_s, f"Slurm did not start: {state}"
        time.sleep(0.1)
        command = ["sinfo", "--noheader", "--format=%T %D"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        state = done.stdout.strip()


def _cancel_jobs(environment: dict[str, str]) -> None:
    """Stop all jobs and wait for their steps, which would outlive the daemons."""

    def run(*words: str) -> str:
        return subprocess.run(
            words, env=environment, capture_output=True, text=True, check=False, timeout=60
        ).stdout

    run("scancel", f"--user={getpass.getuser()}")
    end_s = time.monotonic() + 20
    while run("squeue", "--noheader").strip() and time.monotonic() < end_s:
        time.sleep(0.2)


def _stop_daemons(folder: Path) -> None:
    daemons = []
    for path in sorted(folder.glob("*.pid"), reverse=True):  # munge last but one
        try:
            process = psutil.Process(int(path.read_text()))
            process.send_signal(signal.SIGTERM)
            daemons.append(process)
        except (psutil.NoSuchProcess, ValueError):
            continue
    _, alive = psutil.wait_procs(daemons, timeout=10)
    for process in [*alive, *_steps(folder)]:
        process.kill()


def _steps(folder: Path) -> list[psutil.Process]:
    """List the managers of steps that are still there."""
    found = []
    for process in psutil.process_iter(["name"]):
        with suppress(psutil.Error):
            configuration = process.environ().get("SLURM_CONF", "")
            if process.info["name"] == "slurmstepd" and configuration.startswith(str(folder)):
                found.append(process)
    return found
