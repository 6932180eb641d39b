"""The ways of the tutorial from one process to several: who takes part, and what each is told.

Every framework has its own variables by which a process learns who it is and where the others
are. They are written down here by hand; elsewhere in this package they come from the topology.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"

#: From the roles, the addresses and a place among them to the variables of that process.
Variables = Callable[[Sequence[str], Sequence[str], int], dict[str, str]]


def tf_config(roles: Sequence[str], addresses: Sequence[str], place: int) -> dict[str, str]:
    """Write TensorFlow's one variable: the whole cluster, and who this process is in it."""
    cluster: dict[str, list[str]] = {}
    for role, address in zip(roles, addresses, strict=True):
        cluster.setdefault(role, []).append(address)
    task = {"type": roles[place], "index": roles[:place].count(roles[place])}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def torch_variables(roles: Sequence[str], addresses: Sequence[str], place: int) -> dict[str, str]:
    """Write PyTorch's four: a number, how many there are, and where the first one is met."""
    host, port = addresses[0].split(":")
    told = {"RANK": str(place), "WORLD_SIZE": str(len(roles))}
    return {**told, "MASTER_ADDR": host, "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}


def dmlc_variables(roles: Sequence[str], addresses: Sequence[str], place: int) -> dict[str, str]:
    """Write MXNet's: a role, how many there are of each, and where the scheduler is met."""
    host, port = addresses[roles.index("scheduler")].split(":")
    own_host, own_port = addresses[place].split(":")
    return {
        "DMLC_ROLE": roles[place],
        "DMLC_PS_ROOT_URI": host,
        "DMLC_PS_ROOT_PORT": port,
        "DMLC_NUM_WORKER": str(roles.count("worker")),
        "DMLC_NUM_SERVER": str(roles.count("server")),
        "DMLC_NODE_HOST": own_host,
        "PORT": own_port,
    }


def alone(roles: Sequence[str], addresses: Sequence[str], place: int) -> dict[str, str]:
    """Tell a process nothing."""
    del roles, addresses, place
    return {}


@dataclass(frozen=True)
class Way:
    """A program of the tutorial and the processes that run it.

    Attributes
    ----------
    program
        A file of `horizont.frameworks.tutorial`.
    means
        The framework's own names for what it uses.
    serving
        Roles that serve and do not train; the training is over without them.
    exact
        Whether it must come to the weights of one process.
    words
        On the command line.
    """

    framework: str
    program: str
    means: str
    roles: tuple[str, ...] = ("worker",)
    variables: Variables = alone
    serving: tuple[str, ...] = ()
    exact: bool = True
    words: tuple[str, ...] = ()


_TWO = ("worker", "worker")
_SERVED = ("scheduler", "server")

WAYS: dict[str, Way] = {
    "tensorflow_alone": Way("tensorflow", "tensorflow_alone", "tf.function, tf.GradientTape"),
    "tensorflow_ring": Way(
        "tensorflow", "tensorflow_ring", "MultiWorkerMirroredStrategy", _TWO, tf_config
    ),
    "tensorflow_servers": Way(
        "tensorflow",
        "tensorflow_servers",
        "ParameterServerStrategy, ClusterCoordinator",
        ("ps", *_TWO, "chief"),
        tf_config,
        serving=("ps", "worker"),
        exact=False,
    ),
    "torch_alone": Way("pytorch", "torch_alone", "torch.optim.SGD, loss.backward()"),
    "torch_ring": Way("pytorch", "torch_ring", "DistributedDataParallel, gloo", _TWO,
                      torch_variables),
    "torch_server": Way(
        "pytorch", "torch_server", "torch.distributed send and recv, gloo", ("server", *_TWO),
        torch_variables,
    ),
    "mxnet_alone": Way("mxnet", "mxnet_alone", "gluon.Trainer, autograd.record"),
    "mxnet_sync": Way(
        "mxnet", "mxnet_servers", "KVStore dist_sync", (*_SERVED, *_TWO), dmlc_variables,
        serving=_SERVED, words=("dist_sync",),
    ),
    "mxnet_async": Way(
        "mxnet", "mxnet_servers", "KVStore dist_async", (*_SERVED, *_TWO), dmlc_variables,
        serving=_SERVED, exact=False, words=("dist_async",),
    ),
}  # fmt: skip
