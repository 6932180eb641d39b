"""The launcher's side of the sampler: start it, name the processes, stop it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import horizont
from horizont.errors import UserError
from horizont.monitoring.control import ControlWriter
from horizont.monitoring.process_control import defer_interrupts, parent_death_signal
from horizont.monitoring.reporting import finish
from horizont.monitoring.samplerspec import SamplerFiles, SamplerSpec
from horizont.records.files import read_json

_LOOK_S = 0.01
_PATIENCE_S = 5.0


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
        The content of the report: samples, missed ticks, lateness, processes; empty if none.
    """

    path: Path | None
    reason: str
    report: dict[str, Any]


class SamplerClient:
    """A sampler that was started.

    Leaving it as a context stops it. It never raises for a sampler that has died: what was
    saved is recovered, and the outcome says so.
    """

    def __init__(
        self, files: SamplerFiles, control: ControlWriter, process: subprocess.Popen[str]
    ) -> None:
        self.files = files
        self._control = control
        self._process = process
        self._outcome: SamplerResult | None = None

    @property
    def pid(self) -> int:
        """The number of the sampler's process."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether the sampler still runs."""
        return self._process.poll() is None

    def add_root(self, pid: int, name: str) -> None:
        """Follow a process and all that it starts, from the next sample on, as `name`."""
        if self._outcome is None:
            self._control.add_root(pid, name)

    def add_host(self, name: str, counters: Path) -> None:
        """Count the interfaces of another host of this machine, a network namespace.

        Parameters
        ----------
        counters
            The `/proc/PID/net/dev` of a process inside.
        """
        if self._outcome is None:
            self._control.add_host(name, counters)

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait for the first sample; return whether it was taken in time, in seconds."""
        deadline_s = time.monotonic() + timeout_s
        while not self.files.spill.exists():
            if not self.alive() or time.monotonic() > deadline_s:
                return False
            time.sleep(_LOOK_S)
        return True

    def stop(self) -> SamplerResult:
        """End the sampler and return how that went; the same when repeated."""
        if self._outcome is None:
            with defer_interrupts():
                errors = self._end()
                self._control.close()
                self._outcome = self._conclude(errors)
                self.files.remove_temporary()
        return self._outcome

    def _end(self) -> str:
        """Terminate, wait, kill; return what the process has printed to its standard error."""
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)  # one that is stopped would not hear of it
        try:
            return self._process.communicate(timeout=_PATIENCE_S)[1]
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.communicate()[1] + f"did not stop within {_PATIENCE_S} s"

    def _conclude(self, errors: str) -> SamplerResult:
        code = self._process.returncode
        reason = "" if code == 0 else f"sampler ended with status {code}: {errors.strip()}"
        try:
            if not self.files.table.exists():
                # It did not come to that, or not to the end of it; what it has told stays.
                told = read_json(self.files.report) if self.files.report.exists() else {}
                finish(self.files, reason, told)
            return SamplerResult(self.files.table, reason, read_json(self.files.report))
        except UserError as error:
            return SamplerResult(None, reason or str(error), {})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def start_sampler(
    folder: Path,
    interval_s: float = 0.2,
    *,
    host: str = "localhost",
    interfaces: Sequence[str] | None = None,
    stem: str = "samples",
    prefix: Sequence[str] = (),
    ready_s: float = 20.0,
    **settings: float,
) -> SamplerClient:
    """Start a sampler and wait for its first sample.

    Parameters
    ----------
    folder
        Where ``<stem>.parquet`` and ``<stem>.json`` will be; it must exist.
    interval_s
        Seconds from sample to sample.
    host
        The name of the host in the study.
    interfaces
        The network interfaces to count; None for all.
    stem
        The name of the files; one per sampler of a folder.
    prefix
        What to put before the command, for example to enter a network namespace. It must
        replace itself by the command (``exec``), so that the process number stays.
    ready_s
        Seconds to wait for the first sample; 0 does not wait.
    settings
        Other fields of `SamplerSpec`: `jitter`, `scan_s`, `spill_s`.

    Raises
    ------
    UserError
        If a value is not possible or the folder cannot be written.
    """
    spec = SamplerSpec(
        folder=str(folder.absolute()),
        stem=stem,
        host=host,
        interval_s=interval_s,
        interfaces=None if interfaces is None else list(interfaces),
        parent_pid=os.getpid(),
        **settings,
    )
    for stale in (spec.files.table, spec.files.report, spec.files.spill):
        stale.unlink(missing_ok=True)
    spec.write()
    control = ControlWriter(spec.files.control)
    handle = SamplerClient(spec.files, control, _launch(spec, prefix))
    handle.wait_ready(ready_s)
    return handle


def _launch(spec: SamplerSpec, prefix: Sequence[str]) -> subprocess.Popen[str]:
    command = [*prefix, sys.executable, "-m", "horizont.monitoring.sampler"]
    source = str(Path(horizont.__file__).parents[1])  # the same code, wherever it is run from
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    # One thread for the numerical libraries: the sampler computes nothing.
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, "--spec", str(spec.files.spec)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,  # a Ctrl-C is for the launcher, which then stops the sampler
        preexec_fn=parent_death_signal(signal.SIGCONT),  # noqa: PLW1509 - takes no lock
    )
