"""The page of an experiment on a workload: its title, and its figures and tables by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from horizont.analysis.runs import CertificateStatus
from horizont.config.experiment import Experiment
from horizont.config.study import Study
from horizont.config.workload import OptimizerConfig, Workload
from horizont.data.prepared import DatasetDescription
from horizont.records.record import Record
from horizont.reporting import labels
from horizont.reporting.output import PageTitle, Prose
from horizont.reporting.registry import find_entry


@dataclass(frozen=True)
class ExperimentPage:
    """The records of an experiment on a workload, and everything that describes them.

    A figure or table is called with those of the attributes that its parameters name.

    Attributes
    ----------
    certificate
        Whether the times of each framework may be compared.
    publish
        Writes the metrics of the experiment.
    is_view
        Whether another page shows the experiment itself.
    """

    study: Study
    experiment: str
    workload: str
    dataset: DatasetDescription
    records: Sequence[Record]
    certificate: CertificateStatus
    publish: Callable[[], None]
    is_view: bool = False

    @cached_property
    def settings(self) -> Experiment:
        """The settings of the experiment, with its overrides for the workload."""
        return self.study.experiment(self.experiment).on(self.workload)

    def title(self) -> None:
        """Show the title: the workload, in a view after the experiment."""
        title = workload_title(self.study.workload(self.workload), self.dataset.source)
        experiment = f"{self.study.experiment_title(self.experiment)}, " if self.is_view else ""
        _display(PageTitle(experiment + title.text, title.facts))

    def show(self, name: str, /, **values: Any) -> None:
        """Show a figure or table; `values` are further arguments of its function."""
        show(name, **{**self._values(), **values})

    def show_optional(self, *names: str) -> None:
        """Show sections of figures and tables, as far as the records have what they show."""
        show_optional(*names, **self._values())

    def _values(self) -> dict[str, Any]:
        own = ("study", "experiment", "workload", "dataset", "records", "certificate", "settings")
        return {field: getattr(self, field) for field in own}


def show(name: str, /, **values: Any) -> None:
    """Show a figure or table by its name, on a page without an experiment."""
    _display(find_entry(name)(values))


def show_optional(*names: str, records: Sequence[Record], **values: Any) -> None:
    """Show sections of figures and tables, as far as the records have what they show."""
    for name in names:
        entry = find_entry(name)
        if not entry.needs(records):
            continue
        paragraphs = [f"## {entry.title}" if entry.title else "", entry.text]
        if section := "\n\n".join(filter(None, paragraphs)):
            _display(Prose(section))
        show(name, records=records, **values)


def _display(output: Any) -> None:
    from IPython.display import display

    display(output)  # type: ignore[no-untyped-call]


def workload_title(workload: Workload, source: str) -> PageTitle:
    """Return the title of a page about a workload.

    Parameters
    ----------
    source
        ``real`` or ``synthetic``, the source of the data set.
    """
    text = labels.workload_label(workload.network, workload.dataset) + synthetic_note(source)
    return PageTitle(text, f"{_optimizer_label(workload.optimizer)}; {_data_note(source)}")


def dataset_title(name: str, source: str) -> PageTitle:
    """Return the title of a page about a data set."""
    return PageTitle(labels.dataset_label(name) + synthetic_note(source), _data_note(source))


def synthetic_note(source: str) -> str:
    """Return what follows the name of a data set if it is not the real one."""
    return "" if source == "real" else " (synthetic stand-in)"


def _data_note(source: str) -> str:
    if source == "real":
        return "the real data set"
    return "synthetic data of the same shape, not the real data set"


def _optimizer_label(optimizer: OptimizerConfig) -> str:
    """Return an update rule: `SGD, momentum 0.9, learning rate 0.01`."""
    name = {"sgd": "SGD", "adam": "Adam"}[optimizer.name]
    kind = " (Nesterov)" if optimizer.nesterov else ""
    momentum = f"momentum {optimizer.momentum:g}{kind}" if optimizer.momentum else ""
    decay = f"weight decay {optimizer.weight_decay:g}" if optimizer.weight_decay else ""
    rate = f"learning rate {optimizer.learning_rate:g}"
    return ", ".join(filter(None, [name, momentum, decay, rate]))
