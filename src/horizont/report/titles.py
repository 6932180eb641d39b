"""The titles of pages: what a page is about, in words, and on which data."""

from __future__ import annotations

from horizont.report import words
from horizont.report.picture import Title
from horizont.spec import Optimizer, Workload


def workload_title(workload: Workload, source: str) -> Title:
    """Title a page about a workload.

    Parameters
    ----------
    source
        ``real`` or ``synthetic``: where the prepared data come from.
    """
    text = words.workload(workload.network, workload.dataset) + _stand_in(source)
    return Title(text, f"{_rule(workload.optimizer)}; {_data(source)}")


def dataset_title(name: str, source: str) -> Title:
    """Title a page about a data set."""
    return Title(words.dataset(name) + _stand_in(source), _data(source))


def _rule(optimizer: Optimizer) -> str:
    """Describe an update rule: `SGD, momentum 0.9, learning rate 0.01`."""
    name = {"sgd": "SGD", "adam": "Adam"}[optimizer.name]
    kind = " (Nesterov)" if optimizer.nesterov else ""
    momentum = f"momentum {optimizer.momentum:g}{kind}" if optimizer.momentum else ""
    decay = f"weight decay {optimizer.weight_decay:g}" if optimizer.weight_decay else ""
    rate = f"learning rate {optimizer.learning_rate:g}"
    return ", ".join(filter(None, [name, momentum, rate, decay]))


def _stand_in(source: str) -> str:
    return "" if source == "real" else " (synthetic stand-in)"


def _data(source: str) -> str:
    if source == "real":
        return "the real data"
    return "synthetic data of the same shape, not the real set"
