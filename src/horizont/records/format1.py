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

_RUN_KEYS = {
    "keep_weights": "save_weights",
    "exchange": "gradient_exchange",
    "incident": "fault",
    "patience_s": "stall_timeout_s",
    "deadline_s": "timeout_s",
}
_KEYS_OF_SECTIONS = {
    "workload": {"enlarge": "upscale"},
    "system": {"build": "variant"},
    "topology": {
        "engine": "launcher",
        "hosts": "addresses",
        "machines": "hosts",
        "host_cpus": "cpus_per_host",
    },
    "steps": {"bare": "timed", "drained": "input_batches"},
    "gradient_exchange": {"average_every": "local_steps"},
    "fault": {"role": "target", "for_s": "duration_s", "share": "cpu_fraction"},
}
_LINK_KEYS = {"up_mbit": "uplink_mbit"}
_VALUES = {
    "placement": {"together": "colocated", "apart": "dedicated"},
    "sharding": {"by_batch": "global_batches", "by_shard": "static_shards"},
    "kind": {
        "killed": "kill",
        "frozen": "pause",
        "slowed": "throttle",
        "cut_off": "disconnect",
        "restarted": "restart",
    },
}
_EXPERIMENTS = {"incidents": "faults"}
_REPORT_KEYS = {
    "process": "target",
    "over": "end_reason",
    "over_s": "ended_after_s",
    "fates": "processes",
    "taken_in": "rejoined",
}
_PROCESS_KEYS = {
    "life": "incarnation",
    "end": "outcome",
    "end_s": "ended_after_s",
    "error_s": "error_after_s",
    "words": "error",
}
_END_REASONS = {"finished": "completed", "ended": "all_exited", "deadline": "timeout"}
_OUTCOMES = {"finished": "completed", "struck": "injected"}
_RESULT_INPUT_KEYS = {"resident_share": "page_cache_fraction"}
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
    run = _rename(values, _RUN_KEYS)
    if run["system"].get("build") == "plain":  # the default variant
        run["system"] = {key: value for key, value in run["system"].items() if key != "build"}
    for section, names in _KEYS_OF_SECTIONS.items():
        if run.get(section):
            run[section] = _rename(run[section], names)
            for key, new_values in _VALUES.items():
                _replace_value(run[section], key, new_values)
    if link := run["topology"].get("link"):
        run["topology"]["link"] = _rename(link, _LINK_KEYS)
    _replace_value(run, "experiment", _EXPERIMENTS)
    run["evaluation"] = {
        "examples": run.pop("evaluate_examples"),
        "every": run.pop("evaluate_every", 0),
    }
    return run


def convert_environment(values: Mapping[str, Any], launcher: str) -> dict[str, Any]:
    """Return the content of ``environment.json``, with the capabilities of the launcher."""
    environment = _rename(values, {"ground": "provenance"})
    return {**environment, "capabilities": list(_CAPABILITIES[launcher])}


def convert_result(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a result (``result.json``)."""
    result = dict(values)
    result["startup_s"] = _rename(result.get("startup_s", {}), {"drained": "input_batches"})
    if result.get("input"):
        result["input"] = _rename(result["input"], _RESULT_INPUT_KEYS)
    return result


def convert_fault_report(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a fault report."""
    report = _rename(values, _REPORT_KEYS)
    _replace_value(report, "end_reason", _END_REASONS)
    report["processes"] = [_rename(process, _PROCESS_KEYS) for process in report["processes"]]
    for process in report["processes"]:
        _replace_value(process, "outcome", _OUTCOMES)
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


def _rename(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in values.items()}


def _replace_value(values: dict[str, Any], key: str, new_values: Mapping[str, str]) -> None:
    if key in values:
        values[key] = new_values.get(values[key], values[key])
