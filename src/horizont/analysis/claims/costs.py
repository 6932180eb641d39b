"""What it takes to repeat the runs that a claim was judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

from horizont.analysis.resources import peak_memory_mib
from horizont.analysis.runs import by_workload
from horizont.records.packed_record import PackedRecord
from horizont.records.record import Record

_MIB = 2**20


def with_repetition_costs(
    claims: Sequence[Mapping[str, Any]], records: Sequence[Record]
) -> list[dict[str, Any]]:
    """Add to each claim the experiments that it was judged by, and their cost, as ``repetition``.

    One entry per experiment and workload, as `horizont run` executes them: both, ``runs``,
    ``minutes`` of all runs, ``memory_mib``, the peak of all processes of a run in the first block,
    None if it was not sampled, and ``disk_mib`` of the records, as they are stored.
    """
    groups = by_workload(records)
    group_of = {record.folder.name: key for key, group in groups.items() for record in group}
    used = {group_of[name]: None for claim in claims for name in claim["records"]}
    costs = {key: _repetition_cost(*key, groups[key]) for key in used}
    return [
        {
            **claim,
            "repetition": [costs[key] for key in {group_of[r]: None for r in claim["records"]}],
        }
        for claim in claims
    ]


def _repetition_cost(experiment: str, workload: str, records: Sequence[Record]) -> dict[str, Any]:
    peaks_mib = [peak_memory_mib(record) for record in records if record.run.block == 0]
    peaks_mib = [peak for peak in peaks_mib if not isnan(peak)]
    return {
        "experiment": experiment,
        "workload": workload,
        "runs": len(records),
        "minutes": round(sum(record.result.wall_s or 0.0 for record in records) / 60, 1),
        "memory_mib": round(max(peaks_mib)) if peaks_mib else None,
        "disk_mib": round(sum(map(_disk_bytes, records)) / _MIB, 2),
    }


def _disk_bytes(record: Record) -> float:
    if isinstance(record, PackedRecord):
        manifest = record.pack.manifest
        return sum(facts.bytes for facts in manifest.files.values()) / manifest.runs
    return sum(path.stat().st_size for path in record.folder.rglob("*") if path.is_file())
