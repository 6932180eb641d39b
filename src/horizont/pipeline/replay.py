"""Following asynchronous training: short runs that record every update, replayed alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from horizont.data import About
from horizont.equivalence import ReplayedTensor, compare_replay
from horizont.networks import initial_weights, network_for
from horizont.pipeline.check import checked_study
from horizont.pipeline.experiment import carry_out
from horizont.pipeline.paths import Paths, study_paths
from horizont.pipeline.prepare import ensure_data
from horizont.records import Record
from horizont.spec import SYSTEMS, Run, Steps, Study, Topology, installed_version, parse_system

EXPERIMENT = "replay"

#: Two workers, one server, small batches: enough for workers to overtake each other.
TOPOLOGY = Topology(workers=2, servers=1)
STEPS = Steps(warmup=2, bare=20, instrumented=3)
GLOBAL_BATCH = 16
DEADLINE_S = 300.0


@dataclass(frozen=True)
class Replayed:
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


def replay_updates(workload: str, paths: Paths | None = None) -> list[Replayed]:
    """Train a little in every system that shows its updates, and replay what they were.

    Nothing is done on a workload that the settings do not name for it.

    Raises
    ------
    UserError
        If a setting is wrong or the results folder cannot be written.
    """
    paths = paths or study_paths()
    study = checked_study(paths)
    store = paths.records(EXPERIMENT, workload)
    store.mkdir(parents=True, exist_ok=True)
    runs = list(_runs(study, workload))
    if not runs:
        return []
    about = ensure_data(study, runs[0].workload.dataset, paths)
    return [_replayed(record, about) for record in carry_out(runs, about, paths)]


def _runs(study: Study, workload: str) -> Iterator[Run]:
    if workload not in study.equivalence.replays:
        return
    for name, traits in SYSTEMS.items():
        system = parse_system(name)
        if traits.shows_updates and installed_version(system.framework):
            yield Run(
                experiment=EXPERIMENT,
                workload_name=workload,
                workload=study.workload(workload),
                system=system,
                topology=TOPOLOGY,
                steps=STEPS,
                global_batch=GLOBAL_BATCH,
                block=0,
                seed=study.seed,
                sampler_hz=0,
                evaluate_examples=0,
                record_updates="gradients",
                deadline_s=DEADLINE_S,
            )


def _replayed(record: Record, about: About) -> Replayed:
    if not record.ok:
        return Replayed(record, ())
    network = network_for(record.run.workload, about.shape, about.classes)
    initial = initial_weights(network, record.run.seed)
    return Replayed(record, tuple(compare_replay(record, initial)))
