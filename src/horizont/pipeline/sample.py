"""`horizont sample`: the resources of any command's process tree, in the form of a record."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from horizont.errors import UserError
from horizont.measure import SamplerOutcome, describe_environment, read_samples, start_sampler
from horizont.pipeline.attended import run_attended
from horizont.records import append_event, write_json
from horizont.report import command_picture

_MOST_HZ = 100.0


def sample_command(command: Sequence[str], out: Path | None = None, hz: float = 5.0) -> int:
    """Run a command and sample it and all that it starts.

    Leaves ``samples.parquet`` and ``samples.json`` (as the record of a run has them),
    ``environment.json``, ``command.json``, ``events.jsonl`` and ``chart.svg``. What was sampled is
    kept however the command ends.

    Parameters
    ----------
    command
        The program and its arguments.
    out
        A folder without samples; nothing makes a new one, named by the time, where one stands.
    hz
        Samples a second.

    Returns
    -------
    int
        The exit status of the command; 128 and the number of the signal if one ended it.

    Raises
    ------
    UserError
        If the command cannot be started, the folder not be used, or the rate is not possible.
    """
    program = _program(command)
    if not 0 < hz <= _MOST_HZ:
        raise UserError("--hz", hz, f"a number above 0, up to {_MOST_HZ:g}")
    folder = _folder(out or Path(time.strftime("samples-%Y%m%d-%H%M%S")))
    name = Path(command[0]).name
    with start_sampler(folder, 1.0 / hz, spill_s=1.0) as sampler:

        def started(pid: int) -> None:
            sampler.add_root(pid, name)
            _note(folder, "started", process=name, pid=pid)

        try:
            status = run_attended([program, *command[1:]], started)
        except OSError as error:
            allowed = f"a program that can be started ({error.strerror})"
            raise UserError("command", command[0], allowed) from None
        outcome = sampler.stop()
    _note(folder, "ended", process=name, status=status)
    _conclude(folder, command, status, outcome)
    return status


def _program(command: Sequence[str]) -> str:
    if not command:
        raise UserError("command", "", "a program and its arguments, after --")
    program = shutil.which(command[0])
    if program is None:
        raise UserError("command", command[0], "a program that can be started")
    return program


def _folder(folder: Path) -> Path:
    """Make the folder, and refuse one with samples in it: nothing is written over."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        allowed = f"a folder that can be written ({error.strerror})"
        raise UserError("--out", str(folder), allowed) from None
    if (folder / "samples.parquet").exists():
        raise UserError("--out", str(folder), "a folder without samples")
    return folder.absolute()


def _note(folder: Path, event: str, **details: object) -> None:
    """Add to the diary, as long as there is a folder for it."""
    if folder.is_dir():
        append_event(folder / "events.jsonl", event, **details)


def _conclude(folder: Path, command: Sequence[str], status: int, outcome: SamplerOutcome) -> None:
    """Leave the facts and the chart, and say on standard error where; never hide the command."""
    if outcome.reason:
        print(f"sample: {outcome.reason}", file=sys.stderr)
    if outcome.path is None:
        return
    write_json(folder / "command.json", {"command": list(command), "status": status})
    write_json(folder / "environment.json", describe_environment())
    samples = read_samples(folder).to_pandas()
    picture = command_picture(samples, " ".join(command))
    picture.save(folder / "chart.svg")
    print(f"sample: {len(samples)} rows in {folder}, drawn in chart.svg", file=sys.stderr)
