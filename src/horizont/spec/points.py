"""The points of an experiment: what its runs differ in beside the system."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from horizont.errors import UserError
from horizont.spec.base import validate
from horizont.spec.input import Input, suits_input
from horizont.spec.run import check_batch
from horizont.spec.system import parse_system
from horizont.spec.topology import Topology

#: What can be varied: fields of the topology, the batch of all workers or of each, and the input.
TOPOLOGY = ("workers", "servers", "threads", "machines", "placement", "link", "host_cpus")
BATCH = ("global_batch", "local_batch")
INPUT = "input"
VARIABLE = (*TOPOLOGY, *BATCH, INPUT)

#: More points than anyone waits for are a slip of the pen.
MOST = 200

Point = dict[str, Any]


def points(vary: Mapping[str, tuple[Any, ...]]) -> list[Point]:
    """List all combinations of the values that each setting takes; one, if nothing varies.

    Raises
    ------
    UserError
        If a setting cannot be varied, or has no value, or there are too many points.
    """
    for name, values in vary.items():
        if name not in VARIABLE:
            raise UserError("vary", name, VARIABLE)
        if not values:
            raise UserError(f"vary.{name}", [], "at least one value")
    if set(BATCH) <= set(vary):
        raise UserError("vary", list(BATCH), "one of them: the other follows")
    found = [dict(zip(vary, values, strict=True)) for values in product(*vary.values())]
    if len(found) > MOST:
        raise UserError("vary", f"{len(found)} points", f"at most {MOST}")
    return found


def placed(topology: Topology, global_batch: int, system: str, point: Point) -> dict[str, Any]:
    """Tell topology and global batch of a system at a point, as fields of a run.

    A system without servers has none. A local one is a single worker with a single worker's
    share of the batch: the twin of each of the others.
    """
    changes = {name: value for name, value in point.items() if name in TOPOLOGY}
    shaped = Topology.model_validate({**topology.model_dump(), **changes})
    local_batch = point.get("local_batch", 0)
    batch = local_batch * shaped.workers or point.get("global_batch", global_batch)
    parsed = parse_system(system)
    without: dict[str, Any] = {}
    if "server" not in parsed.traits.extra_roles:
        without = {"servers": 0, "placement": "together"}
    if parsed.is_local and shaped.workers > 1:
        check_batch(batch, shaped.workers)
        batch //= shaped.workers
        without |= {"workers": 1, "machines": 0, "hosts": shaped.hosts[:1]}
    values = {**shaped.model_dump(), **without}
    return {
        "topology": Topology.model_validate(values),
        "global_batch": batch,
        "input": given_input(point),
    }


def given_input(point: Point) -> Input:
    """Tell how examples reach the training at a point."""
    return validate(Input, point.get(INPUT, {}), f"vary.{INPUT}")


def suits_point(point: Point, system: str) -> bool:
    """Whether a system can be run at a point: a reader of files belongs to one framework."""
    return suits_input(given_input(point), parse_system(system))
