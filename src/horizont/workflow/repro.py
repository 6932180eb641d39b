"""`horizont repro`: `dvc repro` with the progress of its stages, two pages at a time."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from horizont.errors import Problem, UserError
from horizont.monitoring.process_control import defer_interrupts
from horizont.wording import suggestion
from horizont.workflow.check import load_study
from horizont.workflow.paths import Paths

#: Pages that are executed at a time.
PARALLEL_PAGES = 2

DVC = (sys.executable, "-m", "dvc")

#: DVC's lock of what a stage writes; its name is in the error of another command.
LOCK = "rwlock"

RUNNING_LINE = re.compile(r"^Running stage '(?P<stage>[^']+)'")
#: DVC's first line on a file that it cannot read; the reason is below it.
DAMAGED_LINE = re.compile(r"^'(\./)?(?P<file>[^']+)' (is invalid|validation failed)")

#: DVC's exit status for options that it does not know; it has printed which ones there are.
WRONG_OPTION = 254

SKIPPED_LINE = re.compile(r"^Stage '(?P<stage>[^']+)' didn't change")


def reproduce(paths: Paths, arguments: Sequence[str] = ()) -> int:
    """Run the stages that are not up to date, and print the number of each.

    Stages that measure come first, one after the other. Pages measure nothing and are executed
    two at a time: DVC locks what a stage reads and writes. A last `dvc repro` of everything then
    runs what needs the pages. Nothing is run if all are up to date. With arguments, a single
    `dvc repro` is run with them.

    Returns the exit status of the first `dvc repro` that failed, 0 if none did.
    """
    load_study(paths)
    if not os.access(paths.root, os.W_OK):
        raise UserError("project folder", str(paths.root), "a writable folder")
    names = _dvc(paths.root, "stage", "list", "--name-only").splitlines()
    _check_targets(paths.root, names, arguments)
    if not arguments and not set(names) & set(json.loads(_dvc(paths.root, "status", "--json"))):
        return 0
    plan = [[list(arguments)]] if arguments else schedule_stages(names, read_stage_meta(paths.root))
    progress = StageProgress(len(names))
    statuses = (_run_in_parallel(paths.root, in_parallel, progress) for in_parallel in plan)
    return next(filter(None, statuses), 0)


def _check_targets(root: Path, names: Sequence[str], arguments: Sequence[str]) -> None:
    """Refuse a target that is neither a stage, nor a group of stages, nor a file."""
    if "--glob" in arguments:
        return
    groups = [name.partition("@")[0] for name in names]
    for target in arguments:
        # No option of `dvc repro` has a value.
        is_stage = target in names or target in groups or ":" in target
        if not target.startswith("-") and not is_stage and not (root / target).exists():
            known = suggestion(target, [*names, *groups])
            raise UserError("stage", target, f"an output, or a stage of dvc.yaml{known}")


def schedule_stages(
    names: Sequence[str], metas: Mapping[str, Mapping[str, Any]]
) -> list[list[list[str]]]:
    """Return the arguments of each `dvc repro`, in sequence, grouped by what runs in parallel.

    Parameters
    ----------
    names
        The stages in the order of the pipeline; `theory@theory-01-neuron` is one of `theory`.
    metas
        `meta` of each stage in `dvc.yaml`. With `makes: page` it executes pages, of which those
        listed under `measures` measure nevertheless; with `makes: book` it needs the pages.
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
    # In reverse, since the pages that take longest come late.
    queues = [pages[::-1][first::PARALLEL_PAGES] for first in range(PARALLEL_PAGES)]
    # As single items, because DVC shuffles the stages that it finds itself.
    sequence = [
        [["--single-item", *queue] for queue in group if queue] for group in ([measuring], queues)
    ]
    return [*sequence, [[]]]


def read_stage_meta(root: Path) -> dict[str, dict[str, Any]]:
    """Read `meta` of each stage in `dvc.yaml`."""
    stages = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    return {name: stage.get("do", stage).get("meta", {}) for name, stage in stages.items()}


class StageProgress:
    """Counts the stages that were run or skipped, and prints each as it starts."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._stages: set[str] = set()
        self._start_s = time.monotonic()
        self._lock = threading.Lock()

    def follow(self, output: Iterable[str]) -> None:
        """Count the stages that the output of DVC names."""
        for line in output:
            started = RUNNING_LINE.match(line)
            match = started or SKIPPED_LINE.match(line)
            if match is None:
                continue
            with self._lock:
                self._stages.add(match["stage"])
                if started:
                    minutes, seconds = divmod(int(time.monotonic() - self._start_s), 60)
                    number = f"[{len(self._stages)}/{self._total}]"
                    print(f"{number} {match['stage']}  ({minutes}:{seconds:02d})", flush=True)


def _run_in_parallel(
    root: Path, argument_lists: Sequence[Sequence[str]], progress: StageProgress
) -> int:
    """Run several `dvc repro` at the same time."""
    command = [*DVC, "--wait-for-lock", "repro"]
    processes: list[subprocess.Popen[str]] = []
    readers: list[threading.Thread] = []
    try:
        for arguments in argument_lists:
            with defer_interrupts():
                process = subprocess.Popen(
                    [*command, *arguments],
                    cwd=root,
                    env=stage_environment(root),
                    stdout=subprocess.PIPE,
                    text=True,
                    process_group=0,
                )
                processes.append(process)
            readers.append(threading.Thread(target=progress.follow, args=(process.stdout,)))
            readers[-1].start()
        statuses = [process.wait() for process in processes]
        return next(filter(None, statuses), 0)
    except BaseException:
        # DVC and its stage have their own process group, so that a Ctrl-C or a signal to this
        # process becomes exactly one interrupt for each of them. They then end by themselves.
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
        for process in processes:
            process.wait()
        raise
    finally:
        for reader in readers:
            reader.join()


def _dvc(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*DVC, *arguments],
        cwd=root,
        env=stage_environment(root),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        if LOCK in done.stderr:
            allowed = "in a project in which no other DVC command runs"
            raise UserError("horizont repro", "beside another DVC command", allowed)
        raise _dvc_error(done.stderr)
    return done.stdout


def _dvc_error(text: str) -> UserError:
    """Return the error that DVC has printed: of a damaged file, or of the folder."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if damaged := DAMAGED_LINE.match(line):
            # Without the lines of the file, which begin with their numbers.
            reasons = [one for one in lines[number + 1 :] if not re.match(r"\d+($|\s)", one)]
            name, reason = damaged["file"], "; ".join(reasons) or line
            return UserError(
                name, Problem(reason), f"a file that DVC can read; git checkout {name}"
            )
    reason = lines[-1].removeprefix("ERROR: ") if lines else "DVC failed without a message"
    remedy = "a folder that DVC can use"
    if "not a git repository" in reason:
        remedy = "git, which DVC uses: run `git init`, or clone the project"
    return UserError("DVC", Problem(reason), remedy)


def stage_environment(root: Path) -> dict[str, str]:
    """Return an environment in which stages find `horizont` and `dvc` of this interpreter."""
    programs = str(Path(sys.executable).parent)
    path = os.pathsep.join([programs, os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "HORIZONT_ROOT": str(root), "DVC_NO_ANALYTICS": "1"}
