"""A real JupyterLab for tests, started as `horizont lab` does."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from horizont.launchers.local import reserve_ports
from horizont.workflow.lab import lab_command
from horizont.workflow.paths import Paths


@contextmanager
def jupyterlab(project: Path, own: Path, *words: str) -> Iterator[str]:
    """Start JupyterLab on a project, without a browser, and yield its address once it responds.

    Its own files and its log are in the folder `own`; the words are further arguments.
    """
    with reserve_ports(["127.0.0.1"], 0) as (port,):
        pass
    address = f"http://127.0.0.1:{port}"
    words = ("--no-browser", f"--port={port}", "--IdentityProvider.token=", *words)
    folders = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    env = {**os.environ, **{name: str(own / name) for name in folders}}
    with (own / "log").open("w") as log:
        command = lab_command(Paths(project), words)
        server = subprocess.Popen(command, env=env, cwd=project, stdout=log, stderr=log)
    try:
        fetch(f"{address}/api")
        yield address
    finally:
        server.terminate()
        server.wait(30)


def fetch(address: str, timeout_s: float = 60.0) -> str:
    """Fetch a page as soon as the server has started."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        try:
            with urllib.request.urlopen(address) as response:
                return str(response.read().decode())
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"no response from {address}")
