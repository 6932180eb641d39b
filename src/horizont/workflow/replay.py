"""Following asynchronous training: short runs that record every update, replayed alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from horizont.config.run import Evaluation, Run, StepCounts
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

#: Two workers, one server, small batches: enough for workers to overtake each other.
TOPOLOGY = Topology(workers=2, servers=1)
STEP_COUNTS = StepCounts(warmup=2, timed=20, instrumented=3)
GLOBAL_BATCH = 16
REPLAY_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class ReplayResult:
    """An asynchronous run and what came of replaying it; nothing of a run that failed."""

    record: Record
    tensors: tuple[ReplayedTensor, ...]

    @property
    def ok(self) -> bool:
        """Whether the replay came to the servers' weights, tensor by tensor."""
        return bool(self.tensors) and all(tensor.ok for tensor in self.tensors)

    def as_row(self) -> dict[str, Any]:
        """Tell the run with the tensor that comes closest to its bound."""
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
    """Train a little in every system that shows its updates, and replay what they were.

    Nothing is done on a workload that the settings do not name for it.

    Raises
    ------
    UserError
        If a setting is wrong or the results folder cannot be written.
    """
    paths = paths or study_paths()
    study = load_study(paths)
    store = paths.records(REPLAY_EXPERIMENT, workload)
    store.mkdir(parents=True, exist_ok=True)
    runs = list(_replay_runs(study, workload))
    if not runs:
        return []
    about = ensure_prepared(study, runs[0].workload.dataset, paths)
    return [_replay_result(record, about) for record in execute_runs(runs, about, paths)]


def _replay_runs(study: Study, workload: str) -> Iterator[Run]:
    if workload not in study.equivalence.replay:
        return
    for name, traits in SYSTEMS.items():
        system = parse_system(name)
        if traits.records_updates and installed_version(system.framework):
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
                evaluation=Evaluation(),
                record_updates="gradients",
                timeout_s=REPLAY_TIMEOUT_S,
            )


def _replay_result(record: Record, dataset: DatasetDescription) -> ReplayResult:
    if not record.ok:
        return ReplayResult(record, ())
    network = network_for(record.run.workload, dataset.shape, dataset.classes)
    initial = initial_weights(network, record.run.seed)
    return ReplayResult(record, tuple(compare_replay(record, initial)))
