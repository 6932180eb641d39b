"""Starts the programs of chapter 11: their processes, and the environment of each."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from horizont.config.system import framework_python, installed_version
from horizont.errors import UserError
from horizont.launchers.local import reserve_ports
from horizont.launchers.plan import ProcessPlan, thread_environment
from horizont.launchers.supervisor import run_as_group
from horizont.reporting.labels import framework_label
from horizont.reporting.output import Message, Prose, Stack, Verdict, python_code
from horizont.workflow.progress import Progress
from horizont_textbook import page
from horizont_textbook.processes import LOOPBACK
from horizont_textbook.tutorial import BOUND, STEPS, Trained, examples, train

FOLDER = Path(__file__).parent / "programs"
TIMEOUT_S = 120.0

#: Comments for tools, which the page does not show.
TOOL_COMMENT = re.compile(r"  # (type: ignore|noqa).*")


def tf_config(roles: Sequence[str], addresses: Sequence[str], index: int) -> dict[str, str]:
    """Return TensorFlow's variable: the cluster, and the task of this process."""
    cluster: dict[str, list[str]] = {}
    for role, address in zip(roles, addresses, strict=True):
        cluster.setdefault(role, []).append(address)
    task = {"type": roles[index], "index": roles[:index].count(roles[index])}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def torch_environment(roles: Sequence[str], addresses: Sequence[str], index: int) -> dict[str, str]:
    """Return PyTorch's variables: rank, world size, and the address of the first process."""
    host, port = addresses[0].split(":")
    ranks = {"RANK": str(index), "WORLD_SIZE": str(len(roles))}
    return {**ranks, "MASTER_ADDR": host, "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}


def dmlc_environment(roles: Sequence[str], addresses: Sequence[str], index: int) -> dict[str, str]:
    """Return MXNet's variables: role, numbers of roles, and the address of the scheduler."""
    host, port = addresses[roles.index("scheduler")].split(":")
    own_host, own_port = addresses[index].split(":")
    return {
        "DMLC_ROLE": roles[index],
        "DMLC_PS_ROOT_URI": host,
        "DMLC_PS_ROOT_PORT": port,
        "DMLC_NUM_WORKER": str(roles.count("worker")),
        "DMLC_NUM_SERVER": str(roles.count("server")),
        "DMLC_NODE_HOST": own_host,
        "PORT": own_port,
    }


def jax_environment(roles: Sequence[str], addresses: Sequence[str], index: int) -> dict[str, str]:
    """Return variables for ``jax.distributed.initialize``, which has none of its own for all."""
    ranks = {"RANK": str(index), "WORLD_SIZE": str(len(roles))}
    return {**ranks, "COORDINATOR": addresses[0]}


#: Of several processes, by framework: from the roles and addresses of all, and the index of one.
ENVIRONMENTS = {
    "tensorflow": tf_config,
    "pytorch": torch_environment,
    "mxnet": dmlc_environment,
    "jax": jax_environment,
}


@dataclass(frozen=True)
class Program:
    """A program and the processes that run it.

    Attributes
    ----------
    mechanism
        The framework's own names for what it uses.
    services
        Roles that do not train; the training is finished without them.
    exact
        Whether it must result in the weights of one process.
    command
        The file in the folder `programs`, and its arguments; by default the file with the name.
    """

    name: str
    framework: str
    mechanism: str
    roles: tuple[str, ...] = ("worker",)
    services: tuple[str, ...] = ()
    exact: bool = True
    command: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The file."""
        return FOLDER / f"{self.command[0] if self.command else self.name}.py"


_WORKERS = ("worker", "worker")
_KVSTORE = ("scheduler", "server", *_WORKERS), ("scheduler", "server")

PROGRAMS = {program.name: program for program in (
    Program("tensorflow_single", "tensorflow", "tf.function, tf.GradientTape"),
    Program("tensorflow_allreduce", "tensorflow", "MultiWorkerMirroredStrategy", _WORKERS),
    Program("tensorflow_parameter_server", "tensorflow",
            "ParameterServerStrategy, ClusterCoordinator",
            ("ps", *_WORKERS, "chief"), ("ps", "worker"), exact=False),
    Program("torch_single", "pytorch", "torch.optim.SGD, loss.backward()"),
    Program("torch_allreduce", "pytorch", "DistributedDataParallel, gloo", _WORKERS),
    Program("torch_parameter_server", "pytorch", "torch.distributed send and recv, gloo",
            ("server", *_WORKERS)),
    Program("mxnet_single", "mxnet", "gluon.Trainer, autograd.record"),
    Program("mxnet_dist_sync", "mxnet", "KVStore dist_sync", *_KVSTORE,
            command=("mxnet_kvstore", "dist_sync")),
    Program("mxnet_dist_async", "mxnet", "KVStore dist_async", *_KVSTORE, exact=False,
            command=("mxnet_kvstore", "dist_async")),
    Program("jax_single", "jax", "jax.jit, jax.value_and_grad, optax.sgd"),
    Program("jax_allreduce", "jax", "shard_map, pmean, gloo", _WORKERS),
)}  # fmt: skip


@dataclass(frozen=True)
class ProgramRun:
    """A program and the result of its processes; without one if it was not run.

    Attributes
    ----------
    processes
        Rows of a table: name, address at which each listens, and its variables.
    """

    program: Program
    processes: Sequence[dict[str, str]] = ()
    trained: Trained | None = None
    wall_s: float | None = None

    @property
    def distance(self) -> float | None:
        """Relative distance of its weights from those of one process in NumPy."""
        return None if self.trained is None else train().distance(self.trained)

    @property
    def ok(self) -> bool | None:
        """Whether rounding explains the distance; None if it is unknown or need not be small."""
        if self.distance is None or not self.program.exact:
            return None
        return self.distance <= BOUND

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        name = self.program.name
        facts = {"name": name, "processes": len(self.processes), "distance": self.distance}
        metadata = {"horizont": {"program": {**facts, "ok": self.ok}}}
        if self.trained is None:
            text = f"{name} is not part of this run; empty the parameter skip to run it."
            if installed_version(self.program.framework) is None:
                text = f"{framework_label(self.program.framework)} is not installed."
            return Message(text)._repr_mimebundle_(), metadata
        losses = ", ".join(f"{loss:.4f}" for loss in self.trained.losses)
        text = f"losses {losses}; distance from one process in NumPy: {self.distance:.0e}"
        note = Message(f"{text}; each gradient is an update of its own")
        verdict = note if self.ok is None else Verdict(text, self.ok)
        table = page.table(self.processes, text=["address", "environment"])
        return Stack((table, verdict))._repr_mimebundle_(), metadata


def program_source(name: str) -> Prose:
    """Return a program as it is run, without comments for tools."""
    text = _find_program(name).path.read_text(encoding="utf-8")
    return python_code(TOOL_COMMENT.sub("", text).rstrip())


def run_program(name: str, skip: str = "") -> ProgramRun:
    """Run the processes of a program and read their result, if its framework is installed.

    Parameters
    ----------
    skip
        Names of programs that are not run, separated by spaces.

    Raises
    ------
    UserError
        If there is no such program.
    RunFailed
        If a process fails or the timeout expires. None is left running.
    """
    program = _find_program(name)
    if name in skip.split() or installed_version(program.framework) is None:
        return ProgramRun(program)
    progress = Progress("program", 1)
    progress.start(f"{program.mechanism} with {len(program.roles)} processes")
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="horizont-") as root:
        x, labels = examples()
        np.savez(Path(root, "examples.npz"), x=x, labels=labels)
        with reserve_ports([LOOPBACK] * len(program.roles), 0) as ports:
            addresses = [f"{LOOPBACK}:{port}" for port in ports]
            plans, rows = plan_processes(program, Path(root), addresses)
            run_as_group(plans, TIMEOUT_S)
        trained = _read_result(Path(root))
    wall_s = time.monotonic() - start_s
    progress.finish(f"{wall_s:.1f} s")
    progress.close()
    return ProgramRun(program, rows, trained, wall_s)


def plan_processes(
    program: Program, root: Path, addresses: Sequence[str]
) -> tuple[list[ProcessPlan], list[dict[str, str]]]:
    """Build the plans of the processes of a program, and a row of a table for each."""
    plans, rows = [], []
    argv = (framework_python(program.framework), str(program.path), *program.command[1:])
    common = {**thread_environment(1), "TF_CPP_MIN_LOG_LEVEL": "2", "TMPDIR": str(root)}
    for index, (role, address) in enumerate(zip(program.roles, addresses, strict=True)):
        name = f"{role}-{program.roles[:index].count(role)}"
        own: dict[str, str] = {}
        if len(addresses) > 1:
            own = ENVIRONMENTS[program.framework](program.roles, addresses, index)
        is_service = role in program.services
        plans.append(ProcessPlan(name, LOOPBACK, argv, common | own, root / name, None, is_service))
        port = address.rpartition(":")[2]
        listens = any(value == port or address in value for value in own.values())
        text = " ".join(f"{key}={value}" for key, value in own.items())
        own_address = address if listens else "–"
        rows.append({"process": name, "address": own_address, "environment": text or "–"})
    return plans, rows


def _read_result(root: Path) -> Trained:
    """Read the mean losses, and the weights of the process that finished last.

    Workers that do not wait for each other end with different weights.
    """
    files = sorted(root.glob("*/result.npz"), key=lambda file: file.stat().st_mtime_ns)
    results = [np.load(file) for file in files]
    losses = [result["losses"] for result in results if result["losses"].size]
    by_step = [values.reshape(STEPS, -1).mean(axis=1) for values in losses]
    return Trained(np.mean(by_step, axis=0), results[-1]["weight"], results[-1]["bias"])


def _find_program(name: str) -> Program:
    if name not in PROGRAMS:
        raise UserError("program", name, list(PROGRAMS))
    return PROGRAMS[name]
