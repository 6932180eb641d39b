"""An extension of the Jupyter server that `horizont lab` starts.

A committed notebook is saved without the outputs that the browser shows. Git and DVC, whose stages
depend on notebooks, see only changes of their cells. Idle kernels end, once no browser shows them.
"""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path
from typing import Any

from horizont.workflow.notebook_files import strip_notebook

#: A kernel that no browser shows ends after so long without a cell to run.
IDLE_KERNEL_TIMEOUT_S = 900
CULL_INTERVAL_S = 60


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Whether a line of the log is shown: not a warning that the user can do nothing about.

    Jupyter's timeout of pings is three intervals, of which Tornado takes no more than one. With a
    timeout of one interval, Jupyter would close connections whenever its timer is late.
    """
    return "websocket_ping_timeout" not in record.getMessage()


def _load_jupyter_server_extension(server_app: Any) -> None:
    """Set up the server; this name is Jupyter's."""
    listed = subprocess.run(
        ["git", "ls-files", "*.ipynb"],
        cwd=server_app.root_dir, capture_output=True, text=True, check=False,
    )  # fmt: skip
    committed = set(listed.stdout.splitlines())  # empty outside a git checkout

    def strip_before_save(model: dict[str, Any], path: str, **_: Any) -> None:
        if model["type"] == "notebook" and path in committed:
            strip_notebook(model["content"], Path(path))

    server_app.contents_manager.register_pre_save_hook(strip_before_save)
    logging.getLogger("tornado.general").addFilter(_is_worth_a_line)
    kernels = server_app.kernel_manager
    if not kernels.cull_idle_timeout:  # unless the user has set it
        kernels.cull_idle_timeout = IDLE_KERNEL_TIMEOUT_S
        kernels.cull_interval = CULL_INTERVAL_S
