"""The points of an experiment: what its runs differ in beside the system."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from horizont.config.base import parse_config
from horizont.config.input import InputPipeline, supports_input
from horizont.config.run import check_batch
from horizont.config.system import parse_system
from horizont.config.topology import Topology
from horizont.errors import UserError

#: What can be varied: fields of the topology, the batch of all workers or of each, and the input.
TOPOLOGY_FIELDS = ("workers", "servers", "threads", "hosts", "placement", "link", "cpus_per_host")
BATCH_FIELDS = ("global_batch", "local_batch")
INPUT_FIELD = "input"
SWEEPABLE = (*TOPOLOGY_FIELDS, *BATCH_FIELDS, INPUT_FIELD)

#: More points than anyone waits for are a slip of the pen.
MAX_POINTS = 200

SweepPoint = dict[str, Any]


def expand_sweep(sweep: Mapping[str, tuple[Any, ...]]) -> list[SweepPoint]:
    """List all combinations of the values that each setting takes; one, if nothing varies.

    Raises
    ------
    UserError
        If a setting cannot be varied, or has no value, or there are too many points.
    """
    for name, values in sweep.items():
        if name not in SWEEPABLE:
            raise UserError("sweep", name, SWEEPABLE)
        if not values:
            raise UserError(f"sweep.{name}", [], "at least one value")
    if set(BATCH_FIELDS) <= set(sweep):
        raise UserError("sweep", list(BATCH_FIELDS), "one of them: the other follows")
    found = [dict(zip(sweep, values, strict=True)) for values in product(*sweep.values())]
    if len(found) > MAX_POINTS:
        raise UserError("sweep", f"{len(found)} points", f"at most {MAX_POINTS}")
    return found


def run_fields_at(
    topology: Topology, global_batch: int, system: str, point: SweepPoint
) -> dict[str, Any]:
    """Tell topology and global batch of a system at a point, as fields of a run.

    A system without servers has none. A local one is a single worker with a single worker's
    share of the batch: the twin of each of the others.
    """
    changes = {name: value for name, value in point.items() if name in TOPOLOGY_FIELDS}
    shaped = Topology.model_validate({**topology.model_dump(), **changes})
    local_batch = point.get("local_batch", 0)
    batch = local_batch * shaped.workers or point.get("global_batch", global_batch)
    parsed = parse_system(system)
    without: dict[str, Any] = {}
    if "server" not in parsed.info.roles:
        without = {"servers": 0, "placement": "colocated"}
    if parsed.is_local and shaped.workers > 1:
        check_batch(batch, shaped.workers)
        batch //= shaped.workers
        without |= {"workers": 1, "hosts": 0, "addresses": shaped.addresses[:1]}
    values = {**shaped.model_dump(), **without}
    return {
        "topology": Topology.model_validate(values),
        "global_batch": batch,
        "input": input_at(point),
    }


def input_at(point: SweepPoint) -> InputPipeline:
    """Tell how examples reach the training at a point."""
    return parse_config(InputPipeline, point.get(INPUT_FIELD, {}), f"sweep.{INPUT_FIELD}")


def supports_point(point: SweepPoint, system: str) -> bool:
    """Whether a system can be run at a point: a reader of files belongs to one framework."""
    return supports_input(input_at(point), parse_system(system))
