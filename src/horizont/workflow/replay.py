"""Replay of asynchronous training: short runs that record every update, recomputed in NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from horizont.config.run import Run, StepCounts
from horizont.config.study import Study
from horizont.config.system import SYSTEMS, parse_system, unusable_reason
from horizont.config.topology import Topology
from horizont.data.prepared import read_description
from horizont.equivalence.replay import compare_replay
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


def record_updates(workload: str, paths: Paths | None = None) -> list[Record]:
    """Train a few steps in every system that records its updates.

    Without a run on a workload that `equivalence.replay` does not name.

    Raises
    ------
    UserError
        If a setting is wrong or the folder of the records cannot be written.
    """
    paths = paths or study_paths()
    study = load_study(paths)
    # DVC expects the folder, even if it is empty.
    paths.records(REPLAY_EXPERIMENT, workload).mkdir(parents=True, exist_ok=True)
    runs = list(_replay_runs(study, workload))
    if not runs:
        return []
    dataset = ensure_prepared(study, runs[0].workload.dataset, paths)
    return execute_runs(runs, dataset, paths)


def replay_updates(records: Sequence[Record], paths: Paths | None = None) -> list[dict[str, Any]]:
    """Compare the updates of some runs with their replay in NumPy.

    Returns
    -------
    list
        Of each run ``system``; ``replayed``, whether every replayed tensor equals the weights of
        the servers within its bound; the ``reason`` if the run failed, else the number of
        ``updates``, and the ``tensor`` closest to its bound with ``distance`` and ``bound``.
    """
    paths = paths or study_paths()
    rows = []
    for record in records:
        system, reason = record.run.system.name, record.result.reason or None
        row = {"system": system, "replayed": False, "reason": reason}
        if record.ok:
            dataset = read_description(paths.prepared(record.run.workload.dataset))
            network = network_for(record.run.workload, dataset.shape, dataset.classes)
            tensors = list(compare_replay(record, initial_weights(network, record.run.seed)))
            worst = max(tensors, key=lambda tensor: tensor.distance / tensor.bound)
            row |= {
                "replayed": all(each.ok for each in tensors),
                "updates": record.updates().num_rows,
            }
            row |= worst.model_dump()
        rows.append(row)
    return rows


def _replay_runs(study: Study, workload: str) -> Iterator[Run]:
    if workload not in study.equivalence.replay:
        return
    for name, info in SYSTEMS.items():
        system = parse_system(name)
        if info.records_updates and not unusable_reason(system.framework):
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
