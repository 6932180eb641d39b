"""JupyterLab: its command, controls for notebooks, and the start notebook's comparison."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import zmq

from horizont.analysis.runs import CertificateStatus
from horizont.config.base import parse_config
from horizont.config.run import Run
from horizont.config.study import read_study
from horizont.config.system import FRAMEWORKS, parse_system
from horizont.errors import UserError
from horizont.networks.catalogue import network_for
from horizont.records.record import Record
from horizont.reporting.figures.learning import loss_figure
from horizont.reporting.figures.phases import throughput_figure
from horizont.reporting.output import Stack
from horizont.reporting.overview import speed_table
from horizont.workflow import lab_extension
from horizont.workflow.measure import execute_runs, randomise_blocks
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.prepare import prepare_subset
from horizont.workflow.progress import is_interactive
from horizont.workflow.publish import status_from_certificate

#: Defaults for JupyterLab: no news and no check for newer versions, which the lock pins.
LAB_SETTINGS_FOLDER = Path(__file__).with_name("lab_settings")


def lab_command(paths: Paths, arguments: Sequence[str] = ()) -> list[str]:
    """Return the command that opens JupyterLab on the start notebook.

    The root of the project is the root of its files, so that links from notebooks reach the
    report and the documentation. Committed notebooks are saved without their outputs.
    """
    start = (paths.notebooks / "start.ipynb").relative_to(paths.root)
    command = [
        str(Path(sys.executable).with_name("jupyter-lab")),
        f"--ServerApp.root_dir={paths.root}",
        # In the address that is printed, too, for a browser on another machine.
        f"--LabApp.default_url=/lab/tree/{start}",
        "--ServerApp.log_level=WARN",
        f"--LabApp.app_settings_dir={LAB_SETTINGS_FOLDER}",
        f"--ServerApp.jpserver_extensions={{'{lab_extension.__name__}': True}}",
    ]
    # Otherwise each kernel warns that other users of the machine could read what it is sent.
    command += ["--KernelManager.transport_encryption=auto"] if zmq.has("curve") else []
    command += ["--allow-root"] if os.getuid() == 0 else []
    return [*command, *arguments]


#: The range of a control: default, minimum and maximum, or the choices, the default first.
ControlRange = tuple[float, float, float] | tuple[str, ...]


def interact(plot: Callable[..., Any], button: str = "", **ranges: ControlRange) -> Any:
    """Plot with controls in an interactive notebook, else with the defaults.

    `plot` is called with the values of the controls by name, and returns what is displayed. A
    labelled button starts those that take longer than a moment.
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


class QuickComparison(NamedTuple):
    """Records in the order of execution, and whether a certificate covers each framework."""

    records: list[Record]
    certificate_status: CertificateStatus


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

    The steps are timed ones, besides a few for warm-up and a few instrumented ones. Each framework
    has a run in each block.
    """
    paths = paths or study_paths()
    study = read_study(paths.params)
    if blocks < 1:
        raise UserError("blocks", blocks, "a number of at least 1: the runs of each framework")
    dataset = prepare_subset(
        QUICK_DATASET, QUICK_EXAMPLES, paths.quick_comparison.prepared_sets, paths
    )
    if batch > (examples := dataset.splits["train"]):
        allowed = f"at most {examples:,}, the number of images that this comparison trains on"
        raise UserError("batch", batch, allowed)
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
    runs = [
        parse_config(Run, {**fields, "system": parse_system(f"{name}/local"), "block": block})
        for block in range(blocks)
        for name in FRAMEWORKS
    ]
    workload, certificate = runs[0].workload, paths.certificate(runs[0].workload_name)
    network_for(workload, dataset.shape, dataset.classes)  # refuses an unknown one
    records = execute_runs(randomise_blocks(runs, study.seed), dataset, paths.quick_comparison)
    status = status_from_certificate(certificate, workload, dataset, list(FRAMEWORKS))
    return QuickComparison(records, status)


def show_quick_comparison(**settings: Any) -> Stack:
    """Build throughput and loss of a quick comparison; see `quick_comparison` for the settings."""
    records, status = quick_comparison(**settings)
    return Stack(
        (speed_table(records, status), throughput_figure(records), loss_figure(records)),
    )
