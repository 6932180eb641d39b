"""JupyterLab: its command, controls for notebooks, and the start notebook's comparison."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horizont.analysis.runs import CertificateStatus
from horizont.analysis.throughput import metrics
from horizont.config.base import parse_config
from horizont.config.run import Run
from horizont.config.study import read_study
from horizont.config.system import FRAMEWORKS, parse_system
from horizont.data.prepared import DatasetDescription
from horizont.networks.catalogue import network_for
from horizont.records.record import Record
from horizont.reporting.figures.learning import loss_figure
from horizont.reporting.figures.throughput import throughput_figure
from horizont.reporting.output import Stack
from horizont.reporting.overview import speed_table
from horizont.workflow.measure import execute_runs, randomise_blocks
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.prepare import prepare_subset
from horizont.workflow.progress import is_interactive
from horizont.workflow.publish import status_from_certificate

START_NOTEBOOK = "start.ipynb"

#: Defaults for JupyterLab: no news and no check for newer versions, which the lock pins.
LAB_SETTINGS_FOLDER = Path(__file__).with_name("lab_settings")


def lab_command(paths: Paths, arguments: Sequence[str] = ()) -> list[str]:
    """Return the command that opens JupyterLab on the start notebook.

    The root of the project is the root of its files, so that links from notebooks reach the
    report and the documentation.
    """
    program = Path(sys.executable).with_name("jupyter-lab")
    command = [str(program), str(paths.notebooks / START_NOTEBOOK)]
    command += [
        f"--ServerApp.root_dir={paths.root}",
        f"--LabApp.app_settings_dir={LAB_SETTINGS_FOLDER}",
    ]
    command += ["--allow-root"] if os.getuid() == 0 else []
    return [*command, *arguments]


#: The range of a control: default, minimum and maximum, or the choices, the default first.
ControlRange = tuple[float, float, float] | tuple[str, ...]


def interact(plot: Callable[..., Any], button: str = "", **ranges: ControlRange) -> Any:
    """Plot with controls in an interactive notebook, else with the defaults.

    Parameters
    ----------
    plot
        Called with the values of the controls by name; returns what is displayed.
    button
        Label of a button that starts the plot, for plots that take longer than a moment.
    """
    if not is_interactive():
        return plot(**{name: values[0] for name, values in ranges.items()})
    from ipywidgets import interactive

    controls = {name: _make_control(name, values) for name, values in ranges.items()}
    manual = {"manual": True, "manual_name": button} if button else {}
    return interactive(plot, {"auto_display": True, **manual}, **controls)


def _make_control(name: str, values: ControlRange) -> Any:
    """Create a drop-down list for choices, a slider for numbers."""
    from ipywidgets import Dropdown, FloatSlider, IntSlider

    default, minimum, maximum = (*values, None, None)[:3]
    options: dict[str, Any] = {
        "description": name.replace("_", " "),
        "style": {"description_width": "8em"},
    }
    if isinstance(default, str):
        return Dropdown(options=values, **options)
    options |= {"value": default, "min": minimum, "max": maximum, "continuous_update": False}
    if isinstance(default, int):
        return IntSlider(**options)
    return FloatSlider(**options, step=(maximum - minimum) / 100, readout_format=".3g")


QUICK_DATASET = "cifar10"

#: A tenth of the data set: prepared quickly, and more than a comparison reads.
QUICK_EXAMPLES = 5000

#: Steps after the timed ones, for the phases.
INSTRUMENTED_STEPS = 10

QUICK_TIMEOUT_S = 240


@dataclass(frozen=True)
class QuickComparison:
    """The records of a quick comparison.

    Attributes
    ----------
    records
        One for each run, in the order of execution.
    certificate_status
        Whether the study's certificate covers the comparison, by framework.
    """

    records: list[Record]
    dataset: DatasetDescription
    certificate_status: CertificateStatus

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """The results by system; see :func:`horizont.analysis.throughput`."""
        return metrics(self.records, self.certificate_status)


def quick_comparison(
    *,
    network: str = "lenet5",
    batch: int = 42,
    learning_rate: float = 0.05,
    threads: int = 1,
    steps: int = 100,
    blocks: int = 1,
    paths: Paths | None = None,
) -> QuickComparison:
    """Train a network on CIFAR-10 briefly in each framework, unless there are records.

    Parameters
    ----------
    batch
        Examples of one step.
    threads
        Compute threads of each process.
    steps
        Timed steps, besides a few for warm-up and a few instrumented ones.
    blocks
        Runs of each framework.

    Raises
    ------
    UserError
        If there is no such network, or a value is impossible.
    """
    paths = paths or study_paths()
    study = read_study(paths.params)
    dataset = prepare_subset(
        QUICK_DATASET, QUICK_EXAMPLES, paths.quick_comparison.prepared_sets, paths
    )
    fields = {
        "experiment": "quick_comparison",
        "workload_name": f"{network}-{QUICK_DATASET}",
        "workload": {
            "network": network,
            "dataset": QUICK_DATASET,
            "optimizer": {"learning_rate": learning_rate},
        },
        "topology": {"threads": threads},
        "steps": {"warmup": 5, "timed": steps, "instrumented": INSTRUMENTED_STEPS},
        "global_batch": batch,
        "seed": study.seed,
        "sampler_hz": 0,
        "timeout_s": QUICK_TIMEOUT_S,
    }
    runs = [_quick_run(fields, name, block) for block in range(blocks) for name in FRAMEWORKS]
    network_for(runs[0].workload, dataset.shape, dataset.classes)
    records = execute_runs(randomise_blocks(runs, study.seed), dataset, paths.quick_comparison)
    workload, certificate = runs[0].workload, paths.certificate(runs[0].workload_name)
    return QuickComparison(
        records, dataset, status_from_certificate(certificate, workload, dataset, list(FRAMEWORKS))
    )


def show_quick_comparison(**settings: Any) -> Stack:
    """Build throughput and loss of a quick comparison; see `quick_comparison` for the settings."""
    comparison = quick_comparison(**settings)
    return Stack(
        (
            speed_table(comparison.records, comparison.certificate_status),
            throughput_figure(comparison.records),
            loss_figure(comparison.records),
        )
    )


def _quick_run(fields: Mapping[str, Any], framework: str, block: int) -> Run:
    return parse_config(
        Run, {**fields, "system": parse_system(f"{framework}/local"), "block": block}
    )
