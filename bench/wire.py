"""Bytes and steps on emulated hosts against theoretical traffic and wire time; needs root."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from horizont.analysis.communication import link_utilisation, traffic
from horizont.config.run import Run
from horizont.config.system import parse_system
from horizont.config.topology import Topology
from horizont.data.preparation import prepare
from horizont.launchers.base import unavailable_reason
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import Record

#: Measured to theoretical bytes on links without a limit.
BYTES_GOAL = 0.01
#: Step to time on the wire at 100 Mbit/s, for the ring.
STEP_GOAL = 1.15

RING = (
    "pytorch/sync/allreduce",
    "pytorch/sync/mpi",
    "tensorflow/sync/allreduce",
    "tensorflow/sync/mpi",
    "jax/sync/allreduce",
)
SERVERS = (
    "pytorch/sync/parameter_server",
    "pytorch/async/parameter_server",
    "tensorflow/async/parameter_server",
    "mxnet/sync/parameter_server",
    "mxnet/async/parameter_server",
)

#: So many steps that the transfer cut by the end of the window hardly counts. With servers, which
#: send all weights to one worker at a time, it can be that of a whole step.
STEPS = {**dict.fromkeys(RING, 60), **dict.fromkeys(SERVERS, 240)}


def emulated_run(system: str, workers: int, steps: int, rate_mbit: float | None) -> Run:
    """Plan a run of a network with eleven million weights, two examples a worker."""
    servers = 1 if "parameter_server" in system else 0
    values: dict[str, Any] = {
        "experiment": "bench",
        "workload_name": "resnet18-cifar10",
        "workload": {
            "network": "resnet18",
            "dataset": "cifar10",
            "optimizer": {"learning_rate": 0.001},
        },
        "system": parse_system(system),
        "topology": {
            "launcher": "emulated",
            "workers": workers,
            "servers": servers,
            "placement": "dedicated" if servers else "colocated",
            "link": {"rate_mbit": rate_mbit},
        },
        "steps": {"warmup": 3, "timed": steps, "instrumented": 0},
        "global_batch": 2 * workers,
        "block": 0,
        "seed": 1,
        "sampler_hz": 20,
        "timeout_s": 600,
    }
    return Run.model_validate(values)


@contextmanager
def emulated_run_paths() -> Iterator[RunPaths | None]:
    """Prepare the folders of runs on emulated hosts; yield None, with the reason, without hosts."""
    if reason := unavailable_reason(Topology(launcher="emulated")):
        print(f"  skipped: {reason}")
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as name:
        folder = Path(name)
        raw = folder / "raw"
        prepare("cifar10", "synthetic", raw, folder, train_examples=2000, test_examples=10)
        yield RunPaths(folder / "records", folder / "cifar10", {})


def run() -> None:
    """Print bytes against theory, and the step against the wire time."""
    with emulated_run_paths() as paths:
        if paths is None:
            return
        for system, steps in STEPS.items():
            for workers in (2, 3):
                _report_bytes(_record(emulated_run(system, workers, steps, None), paths))
        for system in RING:
            _report_step(_record(emulated_run(system, 3, 6, 100.0), paths))


def _record(run: Run, paths: RunPaths) -> Record:
    topology = run.topology
    key = f"{run.system.slug}-{topology.workers}-{topology.link.rate_mbit}"
    return execute(run, key, paths, lambda done, planned: None)


def _report_bytes(record: Record) -> None:
    head = f"  {record.run.system.name}, {record.run.topology.workers} workers: "
    if not record.ok:
        print(f"{head}failed: {record.result.reason}", flush=True)
        return
    table = traffic([record])
    ratios = table[["sent_ratio", "received_ratio"]].to_numpy().ravel()
    worst = max(ratios, key=lambda ratio: abs(ratio - 1))
    verdict = "ok" if abs(worst - 1) <= BYTES_GOAL else "BEYOND"
    print(
        f"{head}bytes / theory {ratios.min():.4f} to {ratios.max():.4f} over hosts and directions "
        f"(goal 1 within {BYTES_GOAL}) {verdict}",
        flush=True,
    )


def _report_step(record: Record) -> None:
    head = f"  {record.run.system.name}, 100 Mbit/s: "
    if not record.ok:
        print(f"{head}failed: {record.result.reason}", flush=True)
        return
    (row,) = link_utilisation([record]).to_dict("records")
    verdict = "ok" if row["step_ratio"] <= STEP_GOAL else "ABOVE"
    print(
        f"{head}step {row['step_s']:.2f} s, wire {row['wire_s']:.2f} s, "
        f"ratio {row['step_ratio']:.3f} (goal {STEP_GOAL}) {verdict}",
        flush=True,
    )
