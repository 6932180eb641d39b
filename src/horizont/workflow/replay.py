"""Replay of asynchronous training: short runs that record every update, recomputed in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from horizont.config.run import Run, StepCounts
from horizont.config.study import Study
from horizont.config.system import SYSTEMS, installed_version, parse_system
from horizont.config.topology import Topology
from horizont.data.prepared import DatasetDescription
from horizont.equivalence.replay import ReplayedTensor, compare_replay
from horizont.networks.catalogue import network_for
from horizont.networks.weights import initial_weights
from horizont.records.record import Record
from horizont.workflow.check import load_study
from horizont.workflow.measure import execute_runs
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.prepare import ensure_prepared

REPLAY_EXPERIMENT = "replay"

#: Two workers and small batches suffice for stale gradients.
TOPOLOGY = Topology(workers=2, servers=1)
STEP_COUNTS = StepCounts(warmup=2, timed=20, instrumented=3)
GLOBAL_BATCH = 16
REPLAY_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class ReplayResult:
    """An asynchronous run and its replay; no tensors if the run failed."""

    record: Record
    tensors: tuple[ReplayedTensor, ...]

    @property
    def ok(self) -> bool:
        """Whether every replayed tensor equals the weights of the servers within its bound."""
        return bool(self.tensors) and all(tensor.ok for tensor in self.tensors)

    def as_row(self) -> dict[str, Any]:
        """Return a row of a table, with the tensor closest to its bound."""
        row: dict[str, Any] = {
            "system": self.record.run.system.name,
            "replayed": self.ok,
            "reason": self.record.result.reason or None,
        }
        if not self.tensors:
            return row
        worst = max(self.tensors, key=lambda tensor: tensor.distance / tensor.bound)
        return row | {"updates": self.record.updates().num_rows, **worst.model_dump()}


def replay_updates(workload: str, paths: Paths | None = None) -> list[ReplayResult]:
    """Train a few steps in every system that records its updates, and replay them.

    Without a run on a workload that `equivalence.replay` does not name.

    Raises
    ------
    UserError
        If a setting is wrong or the folder of the records cannot be written.
    """
    paths = paths or study_paths()
    study = load_study(paths)
    store = paths.records(REPLAY_EXPERIMENT, workload)
    store.mkdir(parents=True, exist_ok=True)
    runs = list(_replay_runs(study, workload))
    if not runs:
        return []
    dataset = ensure_prepared(study, runs[0].workload.dataset, paths)
    return [_replay_result(record, dataset) for record in execute_runs(runs, dataset, paths)]


def _replay_runs(study: Study, workload: str) -> Iterator[Run]:
    if workload not in study.equivalence.replay:
        return
    for name, info in SYSTEMS.items():
        system = parse_system(name)
        if info.records_updates and installed_version(system.framework):
            yield Run(
                experiment=REPLAY_EXPERIMENT,
                workload_name=workload,
                workload=study.workload(workload),
                system=system,
                topology=TOPOLOGY,
                steps=STEP_COUNTS,
                global_batch=GLOBAL_BATCH,
                block=0,
                seed=study.seed,
                sampler_hz=0,
                record_updates="gradients",
                timeout_s=REPLAY_TIMEOUT_S,
            )


def _replay_result(record: Record, dataset: DatasetDescription) -> ReplayResult:
    if not record.ok:
        return ReplayResult(record, ())
    network = network_for(record.run.workload, dataset.shape, dataset.classes)
    initial = initial_weights(network, record.run.seed)
    return ReplayResult(record, tuple(compare_replay(record, initial)))
