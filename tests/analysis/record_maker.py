"""Synthetic but plausible records for tests of tables and figures; no run is measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml

from horizont.config.base import parse_config
from horizont.config.run import Run
from horizont.config.study import Study
from horizont.records.files import write_table
from horizont.records.record import Record, RecordWriter, read_record
from horizont.records.results import RunResult

SEGMENTS = {"warmup": 20, "timed": 80, "instrumented": 30}
#: Milliseconds of load, forward, backward, waiting, communication, update and other.
PHASES_MS = {
    "tensorflow": (0.5, 3.2, 5.0, 0.5, 2.2, 0.8, 0.6),
    "pytorch": (0.4, 2.6, 4.6, 0.4, 1.4, 0.5, 0.3),
    "mxnet": (0.3, 4.2, 7.9, 0.8, 4.0, 1.0, 0.8),
}
NAMES = ("load", "forward", "backward", "waiting", "communication", "update")
ENVIRONMENT = {
    "cpu": {"model": "An Example CPU", "physical_cores": 2, "logical_cores": 2},
    "memory_bytes": 16 * 2**30,
    "system": "Linux",
    "python": "3.11.2",
    "packages": {"tensorflow": "2.21.0", "torch": "2.13.0", "mxnet": "1.9.1", "numpy": "1.26.4"},
    "virtualised": True,
}


def make_study(blocks: int = 3, systems: Sequence[str] = ()) -> Study:
    """Build the study of the quick profile with fewer steps and blocks, and given local systems."""
    values = yaml.safe_load((Path(__file__).parents[2] / "profiles/quick.yaml").read_text())
    for experiment in ("local", "distributed"):
        fields = values["experiments"][experiment]
        named = [name for name in fields["systems"] if name.split("/")[0] in PHASES_MS]
        fields |= {"steps": SEGMENTS, "blocks": blocks, "systems": named}
    if systems:
        values["experiments"]["local"]["systems"] = list(systems)
    return parse_config(Study, values)


def make_records(
    store: Path,
    experiment: str = "distributed",
    workload: str = "lenet5-cifar10",
    blocks: int = 3,
    failed: tuple[str, ...] = (),
    skipped: tuple[str, ...] = (),
    systems: Sequence[str] = (),
) -> list[Record]:
    """Write a record for each planned run; all runs of the given systems fail or are skipped."""
    runs = list(make_study(blocks, systems).runs(experiment, workload))
    return [make_record(store, number, run, failed, skipped) for number, run in enumerate(runs)]


def make_record(
    store: Path,
    seed: int,
    run: Run,
    failed: tuple[str, ...] = (),
    skipped: tuple[str, ...] = (),
) -> Record:
    """Write the record of a run with random times."""
    writer = RecordWriter(store, f"{run.workload_name}-{run.system.slug}-{run.block}")
    writer.start(run, ENVIRONMENT)
    writer.log_event("planned")
    if run.system.name in skipped:
        reason = f"{run.system.framework} is not installed"
        return read_record(writer.finish(RunResult(status="skipped", reason=reason)))
    if run.system.name in failed:
        reason = "worker-1 ended with exit status 1: address already in use"
        return read_record(writer.finish(RunResult(status="failed", reason=reason)))
    random = np.random.default_rng(seed)
    steps = _steps(run, random)
    write_table(writer.folder / "steps.parquet", pa.Table.from_pandas(steps, preserve_index=False))
    samples = _samples(run, steps, random)
    write_table(
        writer.folder / "samples.parquet", pa.Table.from_pandas(samples, preserve_index=False)
    )
    return read_record(writer.finish(_result(run, steps, random)))


def _steps(run: Run, random: np.random.Generator) -> pd.DataFrame:
    kinds = [kind for kind, count in run.steps.segments() for _ in range(count)]
    tables = [_worker_steps(run, worker, kinds, random) for worker in range(run.topology.workers)]
    return pd.concat(tables).sort_values("start_s", ignore_index=True)


def _worker_steps(
    run: Run, worker: int, kinds: list[str], random: np.random.Generator
) -> pd.DataFrame:
    n = len(kinds)
    scale = random.lognormal(0, 0.02) * (1.6 if run.workload_name.startswith("lenet-") else 1.0)
    phase_s = np.array(PHASES_MS[run.system.framework]) * 1e-3 * scale
    phase_s = phase_s * random.lognormal(0, 0.08, (n, len(phase_s)))
    measured = run.system.info.phases
    columns = {}
    for index, name in enumerate(NAMES):
        if run.system.is_local and name in ("waiting", "communication"):
            phase_s[:, index] = 0.0
        known = np.array(kinds) == "instrumented" if name != "load" else np.full(n, True)
        known = known & (name in measured)
        columns[f"{name}_s"] = np.where(known, phase_s[:, index], np.nan)
    slowdown = np.where(np.array(kinds) == "instrumented", 1.06, 1.0)
    slowdown[:3] *= 20.0
    step_s = phase_s.sum(axis=1) * slowdown
    start_s = 1000.0 + 0.01 * worker + np.concatenate([[0], np.cumsum(step_s)[:-1]])
    loss = 1.2 + 1.1 * np.exp(-np.arange(n) / 60) + random.normal(0, 0.05, n)
    return pd.DataFrame(
        {
            "step": np.arange(n),
            "worker": worker,
            "kind": kinds,
            "examples": run.local_batch,
            "start_s": start_s,
            "step_s": step_s,
            **columns,
            "loss": loss,
        }
    )


def _samples(run: Run, steps: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    begin, end = steps["start_s"].min() - 3.0, (steps["start_s"] + steps["step_s"]).max() + 0.3
    names = [f"worker-{i}" for i in range(run.topology.workers)]
    names += [f"server-{i}" for i in range(run.topology.servers)]
    tables = [
        _process(name, 4000 + index, np.arange(begin, end, 0.2), random)
        for index, name in enumerate(names)
    ]
    times = np.arange(begin, end, 0.2)
    sent = np.cumsum(random.lognormal(0, 0.2, len(times)) * 3e6)
    host = {"time_s": times, "scope": "host", "name": "here", "sent_bytes": sent}
    tables.append(pd.DataFrame({**host, "received_bytes": sent, "processes": 120.0}))
    return pd.concat(tables).assign(late_s=1e-4).sort_values("time_s", ignore_index=True)


def _process(name: str, pid: int, times: np.ndarray, random: np.random.Generator) -> pd.DataFrame:
    busy = np.where(times < 1000.0, 0.8, 0.95) if name.startswith("worker") else 0.2
    return pd.DataFrame(
        {
            "time_s": times,
            "scope": "process",
            "name": name,
            "pid": pid,
            "cpu_s": np.cumsum(0.2 * busy * random.lognormal(0, 0.05, len(times))),
            "rss_bytes": np.minimum(5e7 + 1e8 * (times - times[0]), 3.5e8 + 2e7 * (pid % 7)),
            "threads": 4,
        }
    )


def _result(run: Run, steps: pd.DataFrame, random: np.random.Generator) -> RunResult:
    return RunResult(
        status="ok",
        wall_s=8.0,
        train_s=float(steps["step_s"].sum()),
        startup_s={
            "interpreter": 0.1,
            "framework": 1.4 + 2 * random.random(),
            "data": 0.2,
            "network": 0.4,
            "first_step": 0.3,
        },
        final_loss=float(steps["loss"].tail(5).mean()),
        test_accuracy=0.52 + 0.02 * random.random(),
        background_cpu=0.02,
        disturbed=run.block == 1 and run.system.name == "mxnet/async/parameter_server",
        parameters=62_006,
    )


def make_comparisons(diverges: bool = False) -> pd.DataFrame:
    """Build rows as of the comparator: three pairs, both precisions."""
    random = np.random.default_rng(5)
    steps = [("initial", 0), ("logits", 0), ("loss", 0), ("gradient", 0)]
    steps += [("update", step) for step in (1, 5, 20)]
    rows = []
    for dtype, scale, bound in (("float64", 3e-16, 1e-11), ("float32", 2e-7, 8e-6)):
        for quantity, step in steps:
            for pair in ("mxnet-pytorch", "mxnet-tensorflow", "pytorch-tensorflow"):
                for tensor in ("conv1.weight", "fc1.weight"):
                    exact = quantity == "initial"
                    distance = 0.0 if exact else scale * random.lognormal(0.3, 0.7) * (1 + step / 4)
                    if diverges and quantity == "gradient" and pair.startswith("mxnet"):
                        distance = 0.3
                    limit = 0.0 if exact else bound * (1 + step / 4)
                    row = {"quantity": quantity, "tensor": tensor, "step": step, "pair": pair}
                    row |= {"dtype": dtype, "distance": distance, "bound": limit}
                    row |= {"check": "frameworks", "subject": ""}
                    rows.append(
                        {
                            **row,
                            "noise": None,
                            "error": None,
                            "is_evidence": True,
                            "ok": distance <= limit,
                        }
                    )
    return pd.DataFrame(rows)
