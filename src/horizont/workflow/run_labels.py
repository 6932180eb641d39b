"""Labels of runs in the terminal: the system, the block, and what an experiment varies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from horizont.config.run import Run
from horizont.config.study import Study
from horizont.config.sweep import BATCH_FIELDS, TOPOLOGY_FIELDS
from horizont.reporting.labels import link_label


def run_label(run: Run, study: Study | None = None) -> str:
    """Return the label of a run, with the settings that its experiment varies.

    Without a study nothing is known to be varied but the input.
    """
    label = f"{run.workload_name} {run.system.name}"
    label += f", {run.fault.name}" if run.fault is not None else ""
    label += f", {run.input.label(run.system.framework)}" if run.input.from_files else ""
    return f"{label}, block {run.block + 1}{point_label(run, study)}"


def point_label(run: Run, study: Study | None) -> str:
    """Return the settings that the experiment of a run varies: `, global_batch 42`."""
    if study is None or run.experiment not in study.experiments:
        return ""
    sweep = study.experiment(run.experiment).on(run.workload_name).sweep
    return "".join(_settings(run, sweep))


def _settings(run: Run, names: Iterable[str]) -> Iterable[str]:
    optimizer = run.workload.optimizer
    values: dict[str, Any] = {
        **{name: getattr(run.topology, name) for name in TOPOLOGY_FIELDS},
        **{name: getattr(run, name) for name in BATCH_FIELDS},
        "learning_rate": f"{optimizer.learning_rate:g}",
        "initial_limit": run.workload.initial_limit,
        "link": link_label(run.topology.link),
    }
    # The input has words of its own in the label.
    return [f", {name} {values[name]}" for name in names if name in values]
