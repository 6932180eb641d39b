"""Replay of asynchronous training: short runs that record every update, recomputed in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from horizont.config.run import Run, StepCounts
from horizont.config.system import SYSTEMS, parse_system, unusable_reason
from horizont.config.topology import Topology
from horizont.data.prepared import read_description
from horizont.equivalence.replay import compare_replay
from horizont.networks.catalogue import network_for
from horizont.networks.weights import initial_weights
from horizont.records.record import Record
from horizont.workflow.check import load_study
from horizont.workflow.measure import execute_runs
from horizont.workflow.paths import study_paths
from horizont.workflow.prepare import ensure_prepared

REPLAY_EXPERIMENT = "replay"

#: Two workers and small batches suffice for stale gradients.
TOPOLOGY = Topology(workers=2, servers=1)
STEP_COUNTS = StepCounts(warmup=2, timed=20, instrumented=3)
GLOBAL_BATCH = 16
REPLAY_TIMEOUT_S = 300.0


def record_updates(workload: str) -> list[Record]:
    """Train a few steps in every system that records its updates.

    Without a run on a workload that `equivalence.replay` does not name.
    """
    paths = study_paths()
    study = load_study(paths)
    # DVC expects the folder, even if it is empty.
    paths.records(REPLAY_EXPERIMENT, workload).mkdir(parents=True, exist_ok=True)
    names = [name for name, info in SYSTEMS.items() if info.records_updates]
    runs = [
        Run(
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
        for system in map(parse_system, names)
        if workload in study.equivalence.replay and not unusable_reason(system.framework)
    ]
    if not runs:
        return []
    dataset = ensure_prepared(study, runs[0].workload.dataset, paths)
    return execute_runs(runs, dataset, paths)


def replay_updates(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Compare the updates of some runs with their replay in NumPy.

    Returns
    -------
    list
        Of each run ``system``; ``replayed``, whether every replayed tensor equals the weights of
        the servers within its bound; the ``reason`` if the run failed, else the number of
        ``updates``, and the ``tensor`` closest to its bound with ``distance`` and ``bound``.
    """
    paths = study_paths()
    rows = []
    for record in records:
        system, reason = record.run.system.name, record.result.reason or None
        row = {"system": system, "replayed": False, "reason": reason}
        if record.ok:
            dataset = read_description(paths.prepared(record.run.workload.dataset))
            network = network_for(record.run.workload, dataset.shape, dataset.classes)
            tensors = list(compare_replay(record, initial_weights(network, record.run.seed)))
            worst = max(tensors, key=lambda tensor: tensor.distance / tensor.bound)
            replayed, updates = all(each.ok for each in tensors), record.updates().num_rows
            row |= {"replayed": replayed, "updates": updates, **worst.model_dump()}
        rows.append(row)
    return rows
