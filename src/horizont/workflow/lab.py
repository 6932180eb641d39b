"""The laboratory: JupyterLab on the project, with the start notebook open."""

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
from horizont.reporting.captions import loss_figure, throughput_figure
from horizont.reporting.overview import speed_table
from horizont.reporting.page import Stack, stack
from horizont.workflow.measure import execute_runs, randomise_blocks
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.progress import PROGRESS_VARIABLE, displayed_with
from horizont.workflow.publish import status_from_certificate
from horizont.workflow.trained import part_of

#: The notebook that a newcomer sees first.
START_NOTEBOOK = "start.ipynb"

#: Other defaults for JupyterLab: it asks for no news and no newer versions, which the lock decides.
LAB_SETTINGS_FOLDER = Path(__file__).with_name("lab_settings")


def lab_command(paths: Paths, arguments: Sequence[str] = ()) -> list[str]:
    """Tell the command that opens JupyterLab.

    Its files begin at the root of the project, so that links from notebooks reach the report and
    the documents.

    Parameters
    ----------
    words
        More arguments for JupyterLab.
    """
    program = Path(sys.executable).with_name("jupyter-lab")
    command = [str(program), str(paths.notebooks / START_NOTEBOOK)]
    command += [
        f"--ServerApp.root_dir={paths.root}",
        f"--LabApp.app_settings_dir={LAB_SETTINGS_FOLDER}",
    ]
    command += ["--allow-root"] if os.getuid() == 0 else []
    return [*command, *arguments]


#: A value with what it may be: from least to greatest, or one of several words.
ControlRange = tuple[float, float, float] | tuple[str, ...]


def interact(plot: Callable[..., Any], button: str = "", **choices: ControlRange) -> Any:
    """Show a picture; with sliders where a person is at the keyboard.

    Parameters
    ----------
    draw
        Draws the picture from the values, which it takes by name.
    button
        Wait until a button of this name is pressed: for what takes longer than a moment.
    choices
        Of each value: where it stands, the least and the greatest; or words, the first chosen.

    Returns
    -------
    Any
        The picture itself in a notebook that is run headlessly, so that no page holds controls
        that nobody answers.
    """
    if not is_interactive():
        return plot(**{name: choice[0] for name, choice in choices.items()})
    controls = {name: _make_control(name, choice) for name, choice in choices.items()}
    return _control_panel(plot, button, controls)


def _control_panel(plot: Callable[..., Any], button: str, controls: dict[str, Any]) -> Any:
    """Put the controls, a line for progress and the picture below each other."""
    from ipywidgets import HTML, VBox, interactive

    line = HTML()

    def drawn(**values: Any) -> Any:
        with displayed_with(lambda _, page: line.set_trait("value", page)):
            return plot(**values)

    waiting = {"manual": True, "manual_name": button} if button else {}
    settings = {"auto_display": True, **waiting}
    *above, picture = interactive(drawn, settings, **controls).children
    return VBox([*above, line, picture])


def is_interactive() -> bool:
    """Tell whether this is a notebook that was opened by hand: our runner names a file."""
    from IPython import get_ipython

    shell = get_ipython()
    return getattr(shell, "kernel", None) is not None and PROGRESS_VARIABLE not in os.environ


def _make_control(name: str, allowed: ControlRange) -> Any:
    """Make the control that fits: a list of words, whole numbers, or any numbers."""
    from ipywidgets import Dropdown, FloatSlider, IntSlider

    value, least, greatest = (*allowed, None, None)[:3]
    style = {"description_width": "8em"}
    about: dict[str, Any] = {"description": name.replace("_", " "), "style": style}
    if isinstance(value, str):
        return Dropdown(options=allowed, **about)
    about |= {"value": value, "min": least, "max": greatest, "continuous_update": False}
    if isinstance(value, int):
        return IntSlider(**about)
    return FloatSlider(**about, step=(greatest - least) / 100, readout_format=".3g")


QUICK_DATASET = "cifar10"

#: A tenth of the set: quickly made, and more than one tryout looks at.
QUICK_EXAMPLES = 5000

#: Steps whose phases are told apart, after the bare ones.
INSTRUMENTED_STEPS = 10

QUICK_TIMEOUT_S = 240


@dataclass(frozen=True)
class QuickComparison:
    """What came of a small comparison.

    Attributes
    ----------
    records
        One for each run, in the order in which they were made.
    about
        The data set.
    proof
        Whether the study's proof covers it, by framework.
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
    """Train a network on CIFAR-10 in each framework for a moment, or find it trained.

    Parameters
    ----------
    batch
        Examples of one step.
    threads
        Compute threads of each process.
    steps
        Bare steps; a few to warm up come before them, and a few that are taken apart behind.
    blocks
        How often each framework is run.

    Raises
    ------
    UserError
        If there is no such network, or a value is impossible.
    """
    paths = paths or study_paths()
    study = read_study(paths.params)
    about = part_of(QUICK_DATASET, QUICK_EXAMPLES, paths.quick_comparison.prepared_sets, paths)
    asked = {
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
    runs = [_quick_run(asked, name, block) for block in range(blocks) for name in FRAMEWORKS]
    network_for(runs[0].workload, about.shape, about.classes)
    records = execute_runs(randomise_blocks(runs, study.seed), about, paths.quick_comparison)
    workload, proof_file = runs[0].workload, paths.certificate(runs[0].workload_name)
    return QuickComparison(
        records, about, status_from_certificate(proof_file, workload, about, list(FRAMEWORKS))
    )


def show_quick_comparison(**settings: Any) -> Stack:
    """Make a small comparison and show how fast each framework trained, and how the loss fell.

    Parameters
    ----------
    settings
        As of :func:`try_out`.
    """
    tryout = quick_comparison(**settings)
    return stack(
        speed_table(tryout.metrics),
        throughput_figure(tryout.records),
        loss_figure(tryout.records),
    )


def _quick_run(fields: Mapping[str, Any], framework: str, block: int) -> Run:
    return parse_config(
        Run, {**fields, "system": parse_system(f"{framework}/local"), "block": block}
    )
