"""Programs of the tests of JAX, in processes of their own; each prints JSON.

``python -m tests.frameworks.jax_programs threads COUNT``
``python -m tests.frameworks.jax_programs exchange RANK PORT COMPRESSION``
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from horizont.config.jobs import Endpoints, WorkerJob
from horizont.config.run import Run
from horizont.config.system import parse_system
from horizont.config.workload import OptimizerConfig
from horizont.frameworks.base import InMemoryImages, Normalisation, TrainingSetup
from horizont.frameworks.jax.adapter import ADAPTER
from horizont.frameworks.jax.distributed import SPLIT, AllReduceTrainer
from horizont.networks.catalogue import build_network
from horizont.networks.weights import initial_weights

BATCH = 16
RULE = OptimizerConfig(learning_rate=0.01, momentum=0.9)


def setup() -> TrainingSetup:
    """Return LeNet-5 with momentum."""
    network = build_network("lenet5", (3, 32, 32), 10)
    scale = Normalisation(np.zeros(3), np.ones(3))
    return TrainingSetup(network, initial_weights(network, 1), RULE, scale)


def examples() -> InMemoryImages:
    """Draw four batches."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (4 * BATCH, 3, 32, 32), dtype=np.uint8)
    order = list(np.arange(4 * BATCH).reshape(4, BATCH))
    return InMemoryImages(images, random.integers(0, 10, 4 * BATCH), order)


def thread_ticks() -> dict[int, tuple[str, int]]:
    """Return name and CPU time, in clock ticks, of each thread of this process."""
    ticks = {}
    for task in Path("/proc/self/task").iterdir():
        head, _, tail = (task / "stat").read_text().rpartition(")")
        columns = tail.split()
        ticks[int(task.name)] = (head.partition("(")[2], int(columns[11]) + int(columns[12]))
    return ticks


def threads(count: int) -> dict[str, Any]:
    """Train, and return which threads there are and which of them computed."""
    ADAPTER.configure(count)
    trainer = ADAPTER.trainer(setup())
    batches = list(trainer.batches(examples()))
    trainer.synchronize(trainer.step(batches[0]))
    state = trainer.state
    before = thread_ticks()
    for _ in range(20):
        for batch in batches:
            trainer.synchronize(trainer.step(batch))
    after = thread_ticks()
    used = [name for task, (name, ticks) in after.items() if ticks > before.get(task, ("", 0))[1]]
    return {
        "pool": [name for name, _ in after.values() if "Eigen" in name],
        "used": used,
        "donated": all(array.is_deleted() for array in jax.tree.leaves(state)),
    }


def exchange(rank: int, port: str, compression: str) -> dict[str, Any]:
    """Join another worker, and return the all-reduce instructions of the program of a step."""
    ADAPTER.configure(1)
    values: dict[str, Any] = {
        "experiment": "test",
        "workload_name": "lenet5-cifar10",
        "workload": {"network": "lenet5", "dataset": "cifar10", "optimizer": RULE},
        "system": parse_system("jax/sync/allreduce"),
        "topology": {"workers": 2},
        "steps": {"warmup": 1, "timed": 1},
        "global_batch": 2 * BATCH,
        "block": 0,
        "seed": 1,
        "sampler_hz": 0,
        "timeout_s": 240,
        "gradient_exchange": {"compression": compression},
    }
    job = WorkerJob(
        run=Run.model_validate(values),
        role="worker",
        rank=rank,
        endpoints=Endpoints(worker=(f"127.0.0.1:{port}", "127.0.0.1:1")),
        data_folder=Path(),
        folder=Path(),
        progress=Path(),
    )
    trainer = ADAPTER.worker(setup(), job)
    assert isinstance(trainer, AllReduceTrainer)
    batch = trainer.to_global(next(trainer.batches(examples())), SPLIT)
    program = trainer.group_program.lower(trainer.group_state, batch).compile().as_text()
    reduced = re.findall(r"= \(?(.*?)\)? all-reduce(?:-start)?\(", program)
    trainer.close()
    return {"operands": [re.findall(r"(\w+)\[", types) for types in reduced]}


if __name__ == "__main__":
    if sys.argv[1] == "threads":
        found = threads(int(sys.argv[2]))
    else:
        found = exchange(int(sys.argv[2]), sys.argv[3], sys.argv[4])
    print(json.dumps(found))
