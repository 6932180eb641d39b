"""`horizont repro`: the whole study by DVC, with the count of its stages."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from horizont.errors import UserError
from horizont.monitoring.process_control import defer_interrupts
from horizont.workflow.check import load_study
from horizont.workflow.paths import Paths

#: Pages that are made at a time.
PARALLEL_PAGES = 2

RUNNING_LINE = re.compile(r"^Running stage '(?P<stage>[^']+)'")
SKIPPED_LINE = re.compile(r"^Stage '(?P<stage>[^']+)' didn't change")


def reproduce(paths: Paths, arguments: Sequence[str] = ()) -> int:
    """Run what is not up to date, and say where each stage stands among all.

    What measures comes first, one stage after the other. Pages measure nothing, and are made two
    at a time: DVC locks what a stage reads and writes. Then DVC looks at everything once more,
    and makes what needs the pages.

    Parameters
    ----------
    arguments
        For `dvc repro`, which is then run once, as it would run by itself.

    Returns
    -------
    int
        The exit status of the first `dvc repro` that failed; 0 if none did.

    Raises
    ------
    UserError
        If the settings are wrong, or the project's folder cannot be written.
    """
    load_study(paths)
    if not os.access(paths.root, os.W_OK):
        raise UserError("project folder", str(paths.root), "a folder that can be written")
    names = _dvc(paths.root, "stage", "list", "--name-only").splitlines()
    plan = [[list(arguments)]] if arguments else schedule_stages(names, read_stage_meta(paths.root))
    count = StageProgress(len(names))
    for beside in plan:
        if status := _run_in_parallel(paths.root, beside, count):
            return status
    return 0


def schedule_stages(
    names: Sequence[str], metas: Mapping[str, Mapping[str, Any]]
) -> list[list[list[str]]]:
    """Tell what is run after what: the arguments of each `dvc repro`, with those beside it.

    Parameters
    ----------
    names
        The stages in the order of the pipeline; `theory@theory-01-neuron` is one of `theory`.
    metas
        What `dvc.yaml` says of a stage under `meta`. With `makes: page` it makes pages, out of
        which those listed under `measures` measure all the same; with `makes: book` it needs
        the pages.
    """
    pages: list[str] = []
    measuring: list[str] = []
    for name in names:
        stage, _, item = name.partition("@")
        meta = metas.get(stage, {})
        if meta.get("makes") == "page" and item not in meta.get("measures", ()):
            pages.append(name)
        elif meta.get("makes") != "book":
            measuring.append(name)
    # From the end, since the chapters that take longest come late: short pages fill what is left.
    shares = [pages[::-1][first::PARALLEL_PAGES] for first in range(PARALLEL_PAGES)]
    # Single items, because DVC shuffles what it looks up by itself.
    single = [
        [["--single-item", *share] for share in turn if share] for turn in ([measuring], shares)
    ]
    return [*single, [[]]]


def read_stage_meta(root: Path) -> dict[str, dict[str, Any]]:
    """Read what `dvc.yaml` says of each stage under `meta`."""
    stages = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    return {name: stage.get("do", stage).get("meta", {}) for name, stage in stages.items()}


class StageProgress:
    """The stages that were run or left as they are, each named in the terminal as it begins."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._started_stages: set[str] = set()
        self._start_s = time.monotonic()
        self._lock = threading.Lock()

    def on_line(self, line: str) -> None:
        """Take in a line that DVC has printed."""
        with self._lock:
            if match := SKIPPED_LINE.match(line):
                self._started_stages.add(match["stage"])
            elif match := RUNNING_LINE.match(line):
                self._started_stages.add(match["stage"])
                minutes, seconds = divmod(int(time.monotonic() - self._start_s), 60)
                place = f"[{len(self._started_stages)}/{self._total}]"
                print(f"{place} {match['stage']}  ({minutes}:{seconds:02d})", flush=True)


def _run_in_parallel(
    root: Path, argument_lists: Sequence[Sequence[str]], progress: StageProgress
) -> int:
    """Run some `dvc repro` beside each other, counting their stages as they name them."""
    command = [*_dvc_command(), "--wait-for-lock", "repro"]
    processes: list[subprocess.Popen[str]] = []
    listeners: list[threading.Thread] = []
    try:
        for arguments in argument_lists:
            with defer_interrupts():  # nobody but us can interrupt it
                process = subprocess.Popen(
                    [*command, *arguments],
                    cwd=root,
                    env=stage_environment(root),
                    stdout=subprocess.PIPE,
                    text=True,
                    process_group=0,
                )
                processes.append(process)
            listeners.append(threading.Thread(target=_read_output, args=(process, progress)))
            listeners[-1].start()
        statuses = [process.wait() for process in processes]
        return next((status for status in statuses if status), 0)
    except BaseException:
        # DVC and its stage have a process group of their own, so that whatever interrupted us, a
        # key or a signal, is one interrupt for each of them. They end by themselves.
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
        for process in processes:
            process.wait()
        raise
    finally:
        for listener in listeners:
            listener.join()


def _read_output(process: subprocess.Popen[str], progress: StageProgress) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        progress.on_line(line)


def _dvc_command() -> list[str]:
    return [sys.executable, "-m", "dvc"]


def _dvc(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*_dvc_command(), *arguments],
        cwd=root,
        env=stage_environment(root),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        words = done.stderr.strip().splitlines()
        raise UserError("dvc.yaml", words[-1] if words else "unreadable", "a pipeline DVC can read")
    return done.stdout


def stage_environment(root: Path) -> dict[str, str]:
    """Put this environment's programs first, so that stages find `horizont` and `dvc`."""
    programs = str(Path(sys.executable).parent)
    path = os.pathsep.join([programs, os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "HORIZONT_ROOT": str(root), "DVC_NO_ANALYTICS": "1"}
