"""The quantities that claims are about: their labels, and how they are read from a record."""

from __future__ import annotations

from collections.abc import Callable
from math import nan

from horizont.analysis.learning import losses, smoothed
from horizont.analysis.resources import resource_totals
from horizont.analysis.runs import PHASES_AND_OTHER
from horizont.analysis.steps import step_means
from horizont.records.record import Record

#: Updates after which the losses of synchronous and asynchronous training are compared.
COMPARED_UPDATES = 100

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
    """Sum transfer and waiting, as the published network times do."""
    means = step_means(record)
    return float(means["communication"] + means.fillna(0.0)["waiting"])


def _peak_memory_mib(record: Record) -> float:
    totals = resource_totals(record)
    return float(totals.loc[totals["name"].str.startswith("worker"), "memory_max"].max())


def _half_accuracy_fraction(record: Record) -> float:
    """Compute the fraction of the run until test accuracy is a half; 1 if it never is."""
    evaluation = record.evaluation()
    if evaluation is None or "test_accuracy" not in evaluation.column_names:
        return nan
    table = evaluation.to_pandas()
    reached = table[table["test_accuracy"] >= 0.5]
    return float(reached["step"].min() / table["step"].max()) if len(reached) else 1.0


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
    "compute_s": ("forward and backward time", _mean("forward", "backward")),
    "update_s": ("weight update", _mean("update")),
    "network_s": ("communication with waiting", _network_s),
    "network_fraction": (
        "fraction of communication and waiting in the step",
        lambda record: _network_s(record) / float(step_means(record)[list(PHASES_AND_OTHER)].sum()),
    ),
    "peak_memory_mib": ("peak resident memory of a worker", _peak_memory_mib),
    "half_accuracy_fraction": (
        "fraction of the run until test accuracy reaches one half",
        _half_accuracy_fraction,
    ),
    "final_accuracy": (
        "final test accuracy",
        lambda record: record.result.test_accuracy or nan,
    ),
    "loss_at_100_updates": (f"loss after {COMPARED_UPDATES} updates", _loss_at_updates),
}
