"""The quantities that claims are about: their labels, and how they are read from a record."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan, nan

import numpy as np

from horizont.analysis.claims.publications import published_steps
from horizont.analysis.learning import losses, smoothed
from horizont.analysis.resources import TOTAL, resource_totals
from horizont.analysis.runs import PHASES_AND_OTHER
from horizont.analysis.steps import step_means
from horizont.records.record import Record

#: Updates after which the losses of synchronous and asynchronous training are compared.
COMPARED_UPDATES = 100

NETWORK_DIFFERENCE = "network_difference_s"

#: Precedes the class in the name of a quantity that is a class of operators.
_OPERATOR = "operator:"


def quantity_label(quantity: str) -> str:
    """Return the label of a quantity."""
    if quantity.startswith(_OPERATOR):
        return f"operator {quantity.removeprefix(_OPERATOR)}"
    return QUANTITIES[quantity][0]


def measure(record: Record, quantity: str) -> float:
    """Compute one of `QUANTITIES` or an operator class; NaN if the record does not have it."""
    if quantity.startswith(_OPERATOR):
        return _operator_s(record, quantity.removeprefix(_OPERATOR))
    return float(QUANTITIES[quantity][1](record))


def _operator_s(record: Record, operator_class: str) -> float:
    """Sum a class of operators over a profiled step, in seconds; NaN without a profile."""
    profile = record.operators()
    if profile is None:
        return nan
    table = profile.to_pandas()
    is_class = table["operator_class"] == operator_class
    return float(table.loc[is_class, "self_s"].sum(min_count=1))


def _mean(*names: str) -> Callable[[Record], float]:
    """Return the function that sums some of the `step_means` of a run; NaN if one is unknown."""
    return lambda record: float(step_means(record)[list(names)].sum(skipna=False))


def _network_s(record: Record) -> float:
    """Sum transfer and waiting.

    The published network times are the distributed time minus that of one process, so they also
    have what communication adds to the other phases.
    """
    means = step_means(record)
    return float(means["communication"] + means.fillna(0.0)["waiting"])


def _host_memory_mib(record: Record) -> float:
    """Return the largest resident memory of all processes of a worker's host, in training."""
    totals = resource_totals(record).set_index("name")["memory_max"]
    hosts = totals.index.intersection(list(record.run.topology.worker_hosts))
    # Processes of one machine have no other host.
    return float(totals.reindex(hosts if len(hosts) else [TOTAL]).max())


def _pipeline_s(record: Record) -> tuple[float, float, int]:
    """Return the seconds of a batch from the pipeline alone, and the batches of an epoch.

    In the first epoch and in later ones; NaN if it was not read alone.
    """
    batches = record.input_batches()
    if batches is None:
        return nan, nan, 0
    table = batches.to_pandas()
    is_first = table["epoch"] == 0
    first_s, later_s = (float(table.loc[rows, "batch_s"].mean()) for rows in (is_first, ~is_first))
    return first_s, later_s, int(is_first.sum())


def _whole_set_load_ratio(record: Record) -> float:
    """Compute how much longer a worker loads that caches the whole data set instead of its third.

    Ten epochs of three workers, as published: either way a worker reads ten thirds of the data
    set, of which what it has not read before is not in its cache.
    """
    first_s, later_s, epoch = _pipeline_s(record)
    steps = 10 * epoch / 3
    load_s = [cached * first_s + (steps - cached) * later_s for cached in (epoch, epoch / 3)]
    return load_s[0] / load_s[1] if epoch else nan


def _half_accuracy_fraction(record: Record) -> float:
    """Compute the fraction of the published training until test accuracy is a half.

    1 if it never is; NaN if the run is shorter than that and ends before.
    """
    evaluation = record.evaluation()
    steps, run = record.run.steps, record.run
    published = published_steps(run.workload_name, run.local_batch)
    if evaluation is None or "test_accuracy" not in evaluation.column_names or isnan(published):
        return nan
    table = evaluation.to_pandas()
    reached = table[table["test_accuracy"] >= 0.5]
    if len(reached):
        return min(1.0, float(reached["step"].min() / published))
    return 1.0 if steps.warmup + steps.timed >= published else nan


def _final_accuracy(record: Record) -> float:
    accuracy = record.result.test_accuracy
    return nan if accuracy is None else accuracy


def _best_accuracy(record: Record) -> float:
    evaluation, best = record.evaluation(), _final_accuracy(record)
    if evaluation is None or "test_accuracy" not in evaluation.column_names:
        return best
    return float(np.nanmax([*evaluation.column("test_accuracy").to_numpy(), best]))


def _loss_at_updates(record: Record) -> float:
    """Return the smoothed loss after `COMPARED_UPDATES` updates of the weights.

    Asynchronous workers update one by one, so each of them has made fewer steps by then.
    """
    topology, is_async = record.run.topology, record.run.system.sync == "async"
    step = COMPARED_UPDATES // (topology.workers if is_async else 1)
    table = smoothed(losses([record]))
    return float(table.loc[table["step"] == step, "smoothed_loss"].mean())


#: Quantity -> its label and its value for a run. Seconds are those of one worker's step, of
#: `total_s` those of a global batch over all workers.
QUANTITIES: dict[str, tuple[str, Callable[[Record], float]]] = {
    "total_s": (
        "total time",
        lambda record: record.run.global_batch / step_means(record)["examples_per_s"],
    ),
    "examples_per_s": ("throughput", _mean("examples_per_s")),
    "step_s": ("step time", _mean("timed_s")),
    "load_s": ("load time", _mean("load")),
    "forward_s": ("forward time", _mean("forward")),
    "backward_s": ("backward time", _mean("backward")),
    "backward_update_s": ("backward time with the update", _mean("backward", "update")),
    "compute_s": ("forward and backward time", _mean("forward", "backward")),
    "compute_update_s": (
        "forward and backward time with the update",
        _mean("forward", "backward", "update"),
    ),
    "update_s": ("weight update", _mean("update")),
    "network_s": ("communication with waiting", _network_s),
    # As published: of the step, what one process does not have. See `Evidence`, which subtracts it.
    NETWORK_DIFFERENCE: ("step time minus that of one process", _mean("timed_s")),
    "network_fraction": (
        "fraction of communication and waiting in the step",
        lambda record: (
            _network_s(record) / step_means(record)[[*PHASES_AND_OTHER]].sum(min_count=1)
        ),
    ),
    "host_memory_mib": ("peak resident memory of a worker's host", _host_memory_mib),
    "memory_mib": (
        "peak resident memory of all hosts",
        lambda record: float(resource_totals(record).set_index("name")["memory_max"][TOTAL]),
    ),
    "pipeline_s": (
        "time of a batch from the pipeline alone, after the first epoch",
        lambda record: _pipeline_s(record)[1],
    ),
    "whole_set_load_ratio": (
        "load time with the whole data set cached over a third of it",
        _whole_set_load_ratio,
    ),
    "half_accuracy_fraction": (
        "fraction of the published training until test accuracy reaches one half",
        _half_accuracy_fraction,
    ),
    "final_accuracy": ("final test accuracy", _final_accuracy),
    "best_accuracy": ("best test accuracy", _best_accuracy),
    "loss_at_100_updates": (f"loss after {COMPARED_UPDATES} updates", _loss_at_updates),
}

#: Quantities that depend on the updates and not on the speed of the machine.
_LEARNING = frozenset(
    {"half_accuracy_fraction", "final_accuracy", "best_accuracy", "loss_at_100_updates"}
)


#: Quantities that are computed for a training that was not run.
PROJECTED = frozenset({"whole_set_load_ratio"})


def is_learning(quantity: str) -> bool:
    """Whether a quantity does not depend on the speed of the machine."""
    return quantity in _LEARNING
