"""`horizont monitor`: any command in the foreground, with its resources sampled."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from horizont.errors import UserError
from horizont.monitoring.client import SamplerResult, start_sampler
from horizont.monitoring.environment import describe_environment
from horizont.monitoring.samples import read_samples
from horizont.records.files import append_event, write_json
from horizont.reporting.figures.resources import command_figure

_MAX_HZ = 100.0
_FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_foreground(command: Sequence[str], on_start: Callable[[int], None]) -> int:
    """Run a command with the standard streams of this process, and forward signals to it.

    `on_start` is called with its process ID. Returns its exit status; 128 plus the signal number if
    a signal ended it, as in a shell.
    """
    process: subprocess.Popen[bytes] | None = None

    def forward(number: int, frame: FrameType | None) -> None:
        del frame
        # The terminal sends a Ctrl-C to the command itself.
        if process is not None and not (number == signal.SIGINT and _in_foreground()):
            process.send_signal(number)

    with _signals_handled_by(forward):
        process = subprocess.Popen(command)
        on_start(process.pid)
        status = process.wait()
    return status if status >= 0 else 128 - status


@contextmanager
def _signals_handled_by(forward: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle the signals within the context, except those that are ignored (`nohup`)."""
    handlers = {number: signal.getsignal(number) for number in _FORWARDED_SIGNALS}
    handled = [number for number, handler in handlers.items() if handler is not signal.SIG_IGN]
    try:
        for number in handled:
            signal.signal(number, forward)
        yield
    finally:
        for number in handled:
            signal.signal(number, handlers[number])


def _in_foreground() -> bool:
    """Whether the terminal sends its keys to this process group, which includes the command."""
    try:
        with open("/dev/tty", "rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def monitor_command(command: Sequence[str], out: Path | None = None, hz: float = 5.0) -> int:
    """Run a command, and sample its process tree.

    Writes ``samples.parquet`` and ``samples.json`` (as in the record of a run),
    ``environment.json``, ``command.json``, ``events.jsonl`` and ``chart.svg``, however the command
    ends; by default into a new folder, named by the time, in the current one. Returns the exit
    status as `run_foreground` does.
    """
    if not command:
        raise UserError("command", "", "a program and its arguments, after --")
    program = shutil.which(command[0])
    if program is None:
        raise UserError("command", command[0], "a program that can be started")
    if not 0 < hz <= _MAX_HZ:
        raise UserError("--hz", hz, f"a number above 0, up to {_MAX_HZ:g}")
    folder = _create_folder(out or Path(time.strftime("samples-%Y%m%d-%H%M%S")))
    name = Path(command[0]).name
    with start_sampler(folder, 1.0 / hz, flush_interval_s=1.0) as sampler:

        def started(pid: int) -> None:
            sampler.add_root(pid, name)
            _log_event(folder, "started", process=name, pid=pid)

        try:
            status = run_foreground([program, *command[1:]], started)
        except OSError as error:
            allowed = f"a program that can be started ({error.strerror})"
            raise UserError("command", command[0], allowed) from None
        result = sampler.stop()
    _log_event(folder, "ended", process=name, status=status)
    _write_results(folder, command, status, result)
    return status


def _create_folder(folder: Path) -> Path:
    """Create the folder; refuse one with samples, which would be overwritten."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        allowed = f"a folder that can be written ({error.strerror})"
        raise UserError("--out", str(folder), allowed) from None
    if (folder / "samples.parquet").exists():
        raise UserError("--out", str(folder), "a folder without samples")
    return folder.absolute()


def _log_event(folder: Path, event: str, **details: object) -> None:
    """Append to the event log, unless the folder was removed."""
    if folder.is_dir():
        append_event(folder / "events.jsonl", event, **details)


def _write_results(
    folder: Path, command: Sequence[str], status: int, result: SamplerResult
) -> None:
    """Write the environment and the chart; report to standard error, apart from the command."""
    if result.reason:
        print(f"monitor: {result.reason}", file=sys.stderr)
    if result.path is None:
        return
    write_json(folder / "command.json", {"command": list(command), "status": status})
    write_json(folder / "environment.json", describe_environment())
    samples = read_samples(folder).to_pandas()
    command_figure(samples, " ".join(command)).save(folder / "chart.svg")
    print(f"monitor: {len(samples)} rows in {folder}, plotted in chart.svg", file=sys.stderr)
