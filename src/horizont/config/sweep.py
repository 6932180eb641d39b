"""A sweep: the settings of an experiment that differ between its runs, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from horizont.config.base import ConfigModel, parse_config
from horizont.config.input import InputPipeline
from horizont.config.topology import Link
from horizont.errors import UserError

TOPOLOGY_FIELDS = ("workers", "servers", "threads", "hosts", "placement", "link", "cpus_per_host")
BATCH_FIELDS = ("global_batch", "local_batch")

#: Settings of the workload that a sweep may vary.
WORKLOAD_FIELDS = ("learning_rate", "initial_limit")

#: Settings that a sweep may vary.
SWEEPABLE = (*TOPOLOGY_FIELDS, *BATCH_FIELDS, *WORKLOAD_FIELDS, "input")

#: Those of them whose values are mappings.
_SWEPT_MODELS: Mapping[str, type[ConfigModel]] = {"link": Link, "input": InputPipeline}

#: A larger sweep is a mistake.
MAX_POINTS = 200

Sweep = dict[str, tuple[Any, ...]]


def expand_sweep(sweep: Sweep) -> list[dict[str, Any]]:
    """List all combinations of the values of a sweep, at most `MAX_POINTS`; one, if it is empty."""
    for name, values in sweep.items():
        if name not in SWEEPABLE:
            raise UserError("sweep", name, SWEEPABLE)
        if not values:
            raise UserError(f"sweep.{name}", [], "at least one value")
        parsed = list(values)
        if name in _SWEPT_MODELS:
            parsed = [parse_config(_SWEPT_MODELS[name], each, f"sweep.{name}") for each in values]
        for number, value in enumerate(values):
            if parsed[number] in parsed[:number]:
                raise UserError(f"sweep.{name}", value, "every value once")
        if name in BATCH_FIELDS:
            for value in values:
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise UserError(f"sweep.{name}", value, "an integer of at least 1")
    if set(BATCH_FIELDS) <= set(sweep):
        raise UserError("sweep", list(BATCH_FIELDS), "one of them: the other follows")
    points = [dict(zip(sweep, values, strict=True)) for values in product(*sweep.values())]
    if len(points) > MAX_POINTS:
        raise UserError("sweep", f"{len(points)} points", f"at most {MAX_POINTS}")
    return points


def input_at(point: Mapping[str, Any]) -> InputPipeline:
    """Return the input pipeline at a sweep point."""
    return parse_config(InputPipeline, point.get("input", {}), "sweep.input")
