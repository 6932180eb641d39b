"""The page of an experiment on a workload: its title, and its figures and tables by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from horizont.analysis.runs import CertificateStatus
from horizont.config.experiment import Experiment
from horizont.config.study import Study
from horizont.config.workload import OptimizerConfig, Workload
from horizont.data.prepared import DatasetDescription
from horizont.records.record import Record
from horizont.reporting import labels
from horizont.reporting.findings import finding
from horizont.reporting.output import Message, PageTitle, Prose
from horizont.reporting.registry import find_entry


@dataclass(frozen=True)
class ExperimentPage:
    """The records of an experiment on a workload, and everything that describes them.

    A figure or table is called with those of the attributes that its parameters name.
    """

    study: Study
    experiment: str
    workload: str
    dataset: DatasetDescription
    records: Sequence[Record]
    certificate: CertificateStatus  # whether the times of each framework may be compared
    publish: Callable[[], None]  # writes the metrics of the experiment
    is_view: bool = False  # whether another page shows the experiment itself
    note: str = ""  # what a reader has to know first, below the title

    @cached_property
    def settings(self) -> Experiment:
        """The settings of the experiment, with its overrides for the workload."""
        return self.study.experiment(self.experiment).on(self.workload)

    def title(self, view: str = "") -> None:
        """Show the title: the workload, in a view after the experiment; and what the page found."""
        rates = {record.run.workload.optimizer.learning_rate for record in self.records}
        title = workload_title(self.study.workload(self.workload), self.dataset.source, rates=rates)
        experiment = f"{self.study.experiment_title(self.experiment)}, " if self.is_view else ""
        found = finding(view or self.settings.kind, self.records, self.certificate)
        _display(PageTitle(experiment + title.text, title.facts, found))
        if self.note:
            _display(Message(self.note))

    def show(self, name: str, /, **values: Any) -> None:
        """Show a figure or table; `values` are further arguments of its function."""
        show(name, **{**self._values(), **values})

    def show_optional(self, *names: str) -> None:
        """Show sections of figures and tables, as far as the records have what they show."""
        show_optional(*names, **self._values())

    def _values(self) -> dict[str, Any]:
        return {**vars(self), "settings": self.settings}


def show(name: str, /, **values: Any) -> None:
    """Show a figure or table by its name, on a page without an experiment."""
    _display(find_entry(name)(values))


def show_optional(*names: str, records: Sequence[Record], **values: Any) -> None:
    """Show sections of figures and tables, as far as the records have what they show."""
    for name in names:
        entry = find_entry(name)
        if not entry.needs(records):
            continue
        heading = f"## {entry.title}" if entry.title else ""
        if section := "\n\n".join(filter(None, [heading, entry.text_on(records)])):
            _display(Prose(section))
        show(name, records=records, **values)


def _display(output: Any) -> None:
    from IPython.display import display

    display(output)  # type: ignore[no-untyped-call]


def workload_title(
    workload: Workload, source: str, finding: str = "", rates: Collection[float] = ()
) -> PageTitle:
    """Return the title of a page about a workload; the source is that of a description.

    The `rates` are those of a sweep, by default that of the optimizer.
    """
    label = labels.workload_label(workload.network, workload.dataset)
    rates = rates or [workload.optimizer.learning_rate]
    title = _title(label, source, _optimizer_label(workload.optimizer, rates))
    return replace(title, finding=finding)


def dataset_title(name: str, source: str) -> PageTitle:
    """Return the title of a page about a data set."""
    return _title(labels.dataset_label(name), source)


def _title(label: str, source: str, *facts: str) -> PageTitle:
    if source == "real":
        return PageTitle(label, "; ".join([*facts, "the real data set"]))
    if source == "own":
        return PageTitle(f"{label} (own data)", "; ".join([*facts, "data of the user"]))
    data = "synthetic data of the same shape, not the real data set"
    return PageTitle(f"{label} (synthetic stand-in)", "; ".join([*facts, data]))


def _optimizer_label(optimizer: OptimizerConfig, rates: Collection[float]) -> str:
    """Return an update rule: `SGD, momentum 0.9, learning rate 0.01`."""
    name = {"sgd": "SGD", "adam": "Adam"}[optimizer.name]
    kind = " (Nesterov)" if optimizer.nesterov else ""
    momentum = f"momentum {optimizer.momentum:g}{kind}" if optimizer.momentum else ""
    decay = f"weight decay {optimizer.weight_decay:g}" if optimizer.weight_decay else ""
    rate = f"learning rate {' or '.join(f'{rate:g}' for rate in sorted(rates, reverse=True))}"
    return ", ".join(filter(None, [name, momentum, decay, rate]))
