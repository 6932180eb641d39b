"""A Slurm of three nodes on this machine, for one test module and of whichever user.

If emulated hosts can be created, each node and the controller is one, with a network of its own;
else all of them use the loopback.
"""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from tests.launchers.agents import require

from horizont.config.topology import Topology
from horizont.launchers.base import open_cluster, unavailable_reason
from horizont.launchers.emulated import EmulatedCluster
from horizont.launchers.local import reserve_ports

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch", "sinfo")

NODES = 3

CONFIGURATION = """
ClusterName=horizont
SlurmctldHost={controller}
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


@dataclass(frozen=True)
class SlurmHost:
    """A host of Slurm's daemons.

    Attributes
    ----------
    prefix
        Argv prefix that runs a command on it.
    """

    name: str = "localhost"
    address: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True)
class SlurmCluster:
    """A controller, on whose host commands are run, and nodes."""

    folder: Path
    controller: SlurmHost
    nodes: tuple[SlurmHost, ...]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of Slurm's commands."""
        return os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf")}

    @property
    def has_networks(self) -> bool:
        """Whether each node has network interfaces of its own."""
        return len({node.address for node in self.nodes}) == NODES

    def command(self, *words: str) -> list[str]:
        """Return the argv of a command on the controller's host."""
        return [*self.controller.prefix, *words]

    def run(self, *words: str, check: bool = True) -> str:
        """Run a command on the controller's host, and return what it prints."""
        return subprocess.run(
            self.command(*words),
            env=self.environment,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            check=check,
            timeout=60,
        ).stdout


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[SlurmCluster]:
    """Start the daemons below a folder with a short path. The test is skipped without Slurm."""
    require(*PROGRAMS)
    (folder / "state").mkdir()
    folder.chmod(0o755)  # munge refuses a socket in a folder that others cannot enter
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    with _hosts(folder) as hosts, reserve_ports(["127.0.0.1"] * (NODES + 1), 0) as ports:
        cluster = SlurmCluster(folder, hosts[-1], hosts[:NODES])
        nodes = [
            f"NodeName=node{n} NodeHostname={host.name} NodeAddr={host.address} Port={port} CPUs=2"
            for n, (host, port) in enumerate(zip(cluster.nodes, ports[1:], strict=True))
        ]
        text = CONFIGURATION.format(
            controller=f"{cluster.controller.name}({cluster.controller.address})",
            ports=ports,
            user=getpass.getuser(),
            folder=folder,
            nodes="\n".join(nodes),
        )
        (folder / "slurm.conf").write_text(text, encoding="utf-8")
        try:
            _start_daemons(cluster)
            yield cluster
        finally:
            _cancel_jobs(cluster)
            _stop_daemons(folder)


@contextmanager
def _hosts(folder: Path) -> Iterator[tuple[SlurmHost, ...]]:
    """Yield a host for each node and one for the controller."""
    topology = Topology(launcher="emulated", workers=NODES + 1)
    if unavailable_reason(topology):
        yield (SlurmHost(),) * (NODES + 1)
        return
    with open_cluster(topology, folder) as emulated:
        assert isinstance(emulated, EmulatedCluster)
        yield tuple(
            SlurmHost(name, emulated.address(name), namespace.command_prefix())
            for name, namespace in emulated.hosts.items()
        )


def _start_daemons(cluster: SlurmCluster) -> None:
    folder = cluster.folder
    files = {"key-file": "key", "socket": "sock", "pid-file": "pid", "log-file": "log"}
    files |= {"seed-file": "seed"}
    options = [f"--{option}={folder}/munge.{name}" for option, name in files.items()]

    cluster.run("munged", *options)
    cluster.run("slurmctld", "-c")
    for number, host in enumerate(cluster.nodes):
        (folder / f"node{number}").mkdir()
        replace(cluster, controller=host).run("slurmd", "-N", f"node{number}")
    end_s = time.monotonic() + 60
    state = ""
    while state != f"idle {NODES}":
        assert time.monotonic() < end_s, f"Slurm did not start: {state}"
        time.sleep(0.1)
        state = cluster.run("sinfo", "--noheader", "--format=%T %D", check=False).strip()


def _cancel_jobs(cluster: SlurmCluster) -> None:
    """Stop all jobs and wait for their steps, which would outlive the daemons."""
    cluster.run("scancel", f"--user={getpass.getuser()}", check=False)
    end_s = time.monotonic() + 20
    while cluster.run("squeue", "--noheader", check=False).strip() and time.monotonic() < end_s:
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
