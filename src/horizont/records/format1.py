"""Conversion of records of format 1, which had other names, when they are read.

With it, records of an earlier version can still be compared with new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

#: Old file names by the new ones.
FILES = {
    "fault_report.json": "aftermath.json",
    "evaluation.parquet": "quality.parquet",
    "input_batches.parquet": "input.parquet",
    "gradients/server_weights.npz": "gradients/served.npz",
}

#: The new name of a key, by its path in a file. The sections in a path have their new names, and
#: the elements of a list have the path of the list.
_RUN_KEYS = {
    "keep_weights": "save_weights",
    "exchange": "gradient_exchange",
    "incident": "fault",
    "patience_s": "stall_timeout_s",
    "deadline_s": "timeout_s",
    "workload.enlarge": "upscale",
    "system.build": "variant",
    "topology.engine": "launcher",
    "topology.hosts": "addresses",
    "topology.machines": "hosts",
    "topology.host_cpus": "cpus_per_host",
    "topology.link.up_mbit": "uplink_mbit",
    "steps.bare": "timed",
    "steps.drained": "input_batches",
    "gradient_exchange.average_every": "local_steps",
    "fault.role": "target",
    "fault.for_s": "duration_s",
    "fault.share": "cpu_fraction",
}
_RESULT_KEYS = {"startup_s.drained": "input_batches", "input.resident_share": "page_cache_fraction"}
_REPORT_KEYS = {
    "process": "target",
    "over": "end_reason",
    "over_s": "ended_after_s",
    "fates": "processes",
    "taken_in": "rejoined",
    "processes.life": "incarnation",
    "processes.end": "outcome",
    "processes.end_s": "ended_after_s",
    "processes.error_s": "error_after_s",
    "processes.words": "error",
}

#: The new values of a key, by its path with new names.
_VALUES = {
    "experiment": {"incidents": "faults"},
    "topology.placement": {"together": "colocated", "apart": "dedicated"},
    "topology.sharding": {"by_batch": "global_batches", "by_shard": "static_shards"},
    "fault.kind": {
        "killed": "kill",
        "frozen": "pause",
        "slowed": "throttle",
        "cut_off": "disconnect",
        "restarted": "restart",
    },
    "end_reason": {"finished": "completed", "ended": "all_exited", "deadline": "timeout"},
    "processes.outcome": {"finished": "completed", "struck": "injected"},
}

_COLUMNS = {"ready_s": "gradients_ready_s"}
_COLUMN_VALUES = {
    "kind": {"bare": "timed"},
    "operator_class": {"word table": "embedding", "word table backward": "embedding backward"},
}

_CAPABILITIES = {
    "local": ("shared_clock",),
    "emulated": ("byte_counters", "link_limits", "cpu_quota", "disconnect", "shared_clock"),
}


def convert_run(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a run (``spec.json``)."""
    run: dict[str, Any] = _convert(values, _RUN_KEYS)
    if run["system"].get("variant") == "plain":  # the default variant
        del run["system"]["variant"]
    run["evaluation"] = {
        "examples": run.pop("evaluate_examples"),
        "every": run.pop("evaluate_every", 0),
    }
    return run


def convert_environment(values: Mapping[str, Any], launcher: str) -> dict[str, Any]:
    """Return the content of ``environment.json``, with the capabilities of the launcher."""
    environment = _convert(values, {"ground": "provenance"})
    return {**environment, "capabilities": list(_CAPABILITIES[launcher])}


def convert_result(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a result (``result.json``)."""
    return {"startup_s": {}, **_convert(values, _RESULT_KEYS)}


def convert_fault_report(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a fault report."""
    report: dict[str, Any] = _convert(values, _REPORT_KEYS)
    return report


def convert_table(table: pa.Table) -> pa.Table:
    """Return a table with the new names of its columns and of their values."""
    table = table.rename_columns([_COLUMNS.get(name, name) for name in table.column_names])
    for column, new_values in _COLUMN_VALUES.items():
        if column in table.column_names:
            index, values = table.column_names.index(column), table[column]
            for old, new in new_values.items():
                values = pc.if_else(pc.equal(values, old), new, values)
            table = table.set_column(index, column, values)
    return table


def _convert(values: Any, names: Mapping[str, str], path: str = "") -> Any:
    """Return a value of a JSON file with the new names of its keys, and their new values."""
    if isinstance(values, Mapping):
        prefix = f"{path}." if path else ""
        renamed = {names.get(prefix + key, key): value for key, value in values.items()}
        return {key: _convert(value, names, prefix + key) for key, value in renamed.items()}
    if isinstance(values, list):
        return [_convert(value, names, path) for value in values]
    return _VALUES.get(path, {}).get(values, values)
