"""Client of the sampler: start it, name hosts and processes, stop it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from horizont.errors import UserError
from horizont.monitoring.process_control import (
    child_environment,
    defer_interrupts,
    parent_death_signal,
)
from horizont.monitoring.samples import SampleFiles, finalize
from horizont.records.files import read_json

_POLL_S = 0.01
_STOP_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class SamplerResult:
    """How a sampler ended.

    Attributes
    ----------
    path
        The table of samples; None if there is none.
    reason
        Empty if all went well, else what went wrong, in a sentence.
    report
        Contents of the report: samples, missed deadlines, lateness, processes; empty if none.
    """

    path: Path | None
    reason: str
    report: dict[str, Any]


class SamplerClient:
    """A running sampler; leaving it as a context stops it.

    No method raises if the sampler has died: `stop` recovers what was flushed and says so.
    """

    def __init__(self, files: SampleFiles, process: subprocess.Popen[bytes]) -> None:
        self.files = files
        self._process = process
        self._result: SamplerResult | None = None

    @property
    def pid(self) -> int:
        """Process ID of the sampler."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the sampler is running."""
        return self._process.poll() is None

    def add_root(self, pid: int, name: str) -> None:
        """Sample a process and all its descendants as `name`, from the next sample on."""
        self._send(command="add_root", pid=pid, name=name)

    def add_host(self, name: str, counters: Path) -> None:
        """Sample the interfaces of another host on this machine, a network namespace.

        Its counters are in the ``/proc/PID/net/dev`` of a process inside.
        """
        self._send(command="add_host", name=name, counters=str(counters))

    def add_device(self, name: str, device: str) -> None:
        """Sample the GPU of a process, given as in ``CUDA_VISIBLE_DEVICES``."""
        self._send(command="add_device", name=name, device=device)

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait for the first sample; return whether it was taken within `timeout_s` seconds."""
        deadline_s = time.monotonic() + timeout_s
        while not self.files.stream.exists():
            if not self.is_alive() or time.monotonic() > deadline_s:
                return False
            time.sleep(_POLL_S)
        return True

    def stop(self) -> SamplerResult:
        """Stop the sampler and return its result; the same when called again."""
        if self._result is None:
            with defer_interrupts():
                self._send(command="stop")
                was_stopped = self._is_stopped()
                self._result = self._collect(self._wait_for_exit(), was_stopped)
        return self._result

    def _send(self, **command: object) -> None:
        """Write a command in one piece; a sampler that has died or reads nothing is ignored."""
        if self._result is None and self._process.stdin is not None:
            line = json.dumps(command).encode() + b"\n"
            with contextlib.suppress(BrokenPipeError, BlockingIOError):
                os.write(self._process.stdin.fileno(), line)

    def _is_stopped(self) -> bool:
        """Whether a signal has stopped the sampler, so that it has taken no samples since."""
        try:
            return psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False

    def _wait_for_exit(self) -> str:
        """Wait, or kill after a time; return what the sampler printed on standard error."""
        self._process.send_signal(signal.SIGCONT)  # a stopped process reads no command
        message = ""
        try:
            _, errors = self._process.communicate(timeout=_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            _, errors = self._process.communicate()
            message = f"did not stop within {_STOP_TIMEOUT_S} s"
        return errors.decode(errors="replace") + message

    def _collect(self, errors: str, was_stopped: bool) -> SamplerResult:
        code, files, reason = self._process.returncode, self.files, ""
        if code != 0:
            reason = f"sampler ended with status {code}: {errors.strip()}"
        elif was_stopped:
            reason = "the sampler was stopped by a signal: the last samples are missing"
        try:
            if not files.table.exists():
                # The sampler died before or during this; a report that it wrote stays.
                finalize(files, reason, read_json(files.report) if files.report.exists() else {})
            return SamplerResult(files.table, reason, read_json(files.report))
        except UserError as error:
            return SamplerResult(None, reason or str(error), {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def start_sampler(
    folder: Path,
    interval_s: float = 0.2,
    *,
    scan_interval_s: float = 1.0,
    flush_interval_s: float = 5.0,
    ready_timeout_s: float = 20.0,
    device: str = "cpu",
) -> SamplerClient:
    """Start a sampler and wait for its first sample.

    It writes ``samples.parquet`` and ``samples.json`` to an existing folder; one that cannot be
    written is refused, as is an invalid interval.

    Parameters
    ----------
    scan_interval_s
        Seconds between searches for new processes; a new root starts one at once.
    flush_interval_s
        Seconds of samples that a killed sampler may lose.
    ready_timeout_s
        Seconds to wait for the first sample; 0 does not wait.
    device
        Where the sampled processes compute; if not on the ``cpu``, the table has columns for GPUs.
    """
    intervals = {
        "interval_s": interval_s,
        "scan_interval_s": scan_interval_s,
        "flush_interval_s": flush_interval_s,
    }
    for name, value in intervals.items():
        if not 0 < value < math.inf:
            raise UserError(f"sampler.{name}", value, "seconds above 0")
    if not os.access(folder, os.W_OK):
        raise UserError("sampler.folder", str(folder), "a folder that can be written")
    files = SampleFiles(folder.absolute())
    for stale in (files.table, files.report, files.stream):
        stale.unlink(missing_ok=True)
    program = [sys.executable, "-m", "horizont.monitoring.sampler"]
    process = subprocess.Popen(
        [*program, str(files.folder), device, *map(str, intervals.values())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        bufsize=0,
        # One thread for the numerical libraries: the sampler computes nothing.
        env=child_environment(OPENBLAS_NUM_THREADS="1"),
        start_new_session=True,  # a Ctrl-C is for the launcher, which then stops the sampler
        # A stopped sampler does not see that its launcher has died unless it is continued.
        preexec_fn=parent_death_signal(signal.SIGCONT),  # noqa: PLW1509 - takes no lock
    )
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)  # no command may block the launcher
    client = SamplerClient(files, process)
    client.wait_ready(ready_timeout_s)
    return client
