"""The laboratory: JupyterLab on the project, with the start notebook open."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from horizont.pipeline.paths import Paths

#: The notebook that a newcomer sees first.
START = "start.ipynb"

#: Other defaults for JupyterLab: it asks for no news and no newer versions, which the lock decides.
SETTINGS = Path(__file__).with_name("lab_settings")


def lab_command(paths: Paths, words: Sequence[str] = ()) -> list[str]:
    """Tell the command that opens JupyterLab.

    Its files begin at the root of the project, so that links from notebooks reach the report and
    the documents.

    Parameters
    ----------
    words
        More arguments for JupyterLab.
    """
    program = Path(sys.executable).with_name("jupyter-lab")
    command = [str(program), str(paths.notebooks / START)]
    command += [f"--ServerApp.root_dir={paths.root}", f"--LabApp.app_settings_dir={SETTINGS}"]
    command += ["--allow-root"] if os.getuid() == 0 else []
    return [*command, *words]
