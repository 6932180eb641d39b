"""`horizont repro`: the whole study by DVC, with the count of its stages."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from horizont.errors import UserError
from horizont.pipeline.check import checked_study
from horizont.pipeline.paths import Paths

RUNNING = re.compile(r"^Running stage '(?P<stage>[^']+)'")
SKIPPED = re.compile(r"^Stage '(?P<stage>[^']+)' didn't change")


def reproduce(paths: Paths, arguments: Sequence[str] = ()) -> int:
    """Run what is not up to date, and say where each stage stands among all.

    Returns
    -------
    int
        The exit status of `dvc repro`.

    Raises
    ------
    UserError
        If the settings are wrong, or the project's folder cannot be written.
    """
    checked_study(paths)
    if not os.access(paths.root, os.W_OK):
        raise UserError("project folder", str(paths.root), "a folder that can be written")
    total = len(_dvc(paths.root, "stage", "list", "--name-only").splitlines())
    return _follow_dvc(paths.root, arguments, total)


def _follow_dvc(root: Path, arguments: Sequence[str], total: int) -> int:
    """Run `dvc repro`, counting its stages as it names them."""
    started = time.monotonic()
    process = subprocess.Popen(
        [*_dvc_command(), "repro", *arguments],
        cwd=root,
        env=surroundings(root),
        stdout=subprocess.PIPE,
        text=True,
    )
    count = 0
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if match := SKIPPED.match(line):
                count += 1
            elif match := RUNNING.match(line):
                count += 1
                minutes, seconds = divmod(int(time.monotonic() - started), 60)
                print(f"[{count}/{total}] {match['stage']}  ({minutes}:{seconds:02d})", flush=True)
        return process.wait()
    except BaseException:
        # DVC has had the same Ctrl-C; it ends its stage and itself.
        process.send_signal(signal.SIGINT)
        process.wait()
        raise


def _dvc_command() -> list[str]:
    return [sys.executable, "-m", "dvc"]


def _dvc(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*_dvc_command(), *arguments],
        cwd=root,
        env=surroundings(root),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        words = done.stderr.strip().splitlines()
        raise UserError("dvc.yaml", words[-1] if words else "unreadable", "a pipeline DVC can read")
    return done.stdout


def surroundings(root: Path) -> dict[str, str]:
    """Put this environment's programs first, so that stages find `horizont` and `dvc`."""
    programs = str(Path(sys.executable).parent)
    path = os.pathsep.join([programs, os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "HORIZONT_ROOT": str(root), "DVC_NO_ANALYTICS": "1"}
