"""The table of runs: one row for every planned run, whatever became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from horizont.analysis.frames import identity, in_order
from horizont.records import Record
from horizont.spec import READERS, Exchange, Run

#: A status for all systems, or one for each framework and each of its builds: ``proven`` or
#: ``not comparable: ...``.
ProofStatus = str | Mapping[str, str]

NO_PROOF = "not comparable: no proof was given"

#: The parts of a start-up in the order in which they happen.
STARTUP = ("interpreter", "framework", "data", "network", "drained", "first_step")


def comparable(record: Record, proof: ProofStatus) -> str:
    """Tell whether a run's times may be compared with the others'."""
    if record.run.exchange != Exchange():
        return "not comparable: workers that spare messages train another way"
    if record.run.record_updates != "none":
        return "not comparable: its updates were recorded, which slows it"
    if not is_ordered(record.run):
        return "not comparable: it reads the examples in the order of their files"
    if isinstance(proof, str):
        return proof
    return proof.get(record.run.system.trainer, NO_PROOF)


def is_ordered(run: Run) -> bool:
    """Whether the examples come in the order that all systems share."""
    if not run.input.from_files:
        return True
    return READERS[run.input.reader_of(run.system.framework)].ordered


def runs(records: Sequence[Record], proof: ProofStatus = NO_PROOF) -> pd.DataFrame:
    """Build the table of runs.

    Parameters
    ----------
    records
        Of all planned runs, failed and skipped ones included.
    proof
        Whether the frameworks were shown to train the same network.

    Returns
    -------
    pandas.DataFrame
        A row a run in the order of systems and blocks. Times in seconds; ``record`` is the name
        of the folder that everything else about the run can be looked up in.
    """
    rows = [_row(record, proof) for record in records]
    frame = pd.DataFrame(rows)
    if frame.empty:
        return frame
    order = {name: place for place, name in enumerate(in_order(frame["system"]))}
    return frame.sort_values(
        ["experiment", "workload", "system", "block"],
        key=lambda column: column.map(order) if column.name == "system" else column,
        ignore_index=True,
    )


def _row(record: Record, proof: ProofStatus) -> dict[str, object]:
    run, result = record.run, record.result
    return {
        **identity(record),
        "workers": run.topology.workers,
        "servers": run.topology.servers,
        "threads": run.topology.threads,
        "global_batch": run.global_batch,
        "status": result.status,
        "reason": result.reason,
        "comparable": comparable(record, proof),
        "disturbed": result.disturbed,
        "background_cpu": result.background_cpu,
        "wall_s": result.wall_s,
        "train_s": result.train_s,
        "final_loss": result.final_loss,
        "test_accuracy": result.test_accuracy,
        "test_perplexity": result.test_perplexity,
        "record": record.folder.name,
    }


def startup(records: Sequence[Record]) -> pd.DataFrame:
    """Build the table of start-up times.

    Returns
    -------
    pandas.DataFrame
        A row a system and part, in the order in which the parts happen: ``system, part,
        mean_s, runs``; seconds, mean over the runs that went well, so that parts add up.
    """
    rows = [
        {**identity(record), "part": part, "part_s": spent_s}
        for record in records
        if record.ok
        for part, spent_s in record.result.startup_s.items()
    ]
    if not rows:
        return pd.DataFrame(columns=["system", "part", "mean_s", "runs"])
    frame = pd.DataFrame(rows)
    others = [part for part in frame["part"].unique() if part not in STARTUP]
    place = {name: i for i, name in enumerate([*in_order(frame["system"]), *STARTUP, *others])}
    grouped = frame.groupby(["system", "part"])["part_s"].agg(mean_s="mean", runs="count")
    return grouped.reset_index().sort_values(
        ["system", "part"], key=lambda column: column.map(place), ignore_index=True
    )
