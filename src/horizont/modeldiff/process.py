"""The process of a side: started with limits, asked for runs, ended with all its descendants.

A model is foreign code: it may never return, end its process, take all memory, print, fork or
crash. Whatever happens becomes a `SideFailed` with one sentence.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from horizont.errors import UserError
from horizont.modeldiff.sides import SideSpec
from horizont.monitoring.process_control import defer_interrupts, parent_death_signal

RUNNER = Path(__file__).with_name("runner.py")

#: The variable by which descendants are found, also those that left the process group.
MARK = "HORIZONT_SIDE"

#: Seconds between two looks at time and memory.
INTERVAL_S = 0.1

#: Seconds within which killed descendants have to end.
TERMINATION_S = 10.0


class SideFailed(Exception):
    """A side that gave no answer, with the reason in a sentence."""


class RunFailed(SideFailed):
    """A run that raised an error, in a process that continues."""


@dataclass(frozen=True)
class Limits:
    """What a side may use: seconds for one request, and bytes of memory in all its processes."""

    request_s: float = 300.0
    memory_bytes: int = 8 * 2**30


class SideProcess:
    """An interpreter that builds and runs the model of one side."""

    def __init__(self, spec: SideSpec, folder: Path, limits: Limits) -> None:
        self.spec, self.folder, self.limits = spec, folder, limits
        self.name = f"side {spec.label} ({spec.text})"
        self.peak_bytes = 0
        # What a killed process leaves among its temporary files goes with the folder.
        temporary = folder / "temporary"
        temporary.mkdir(parents=True, exist_ok=True)
        self.log = folder / "output.txt"
        self._mark = uuid.uuid4().hex
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        environment = {
            **os.environ,
            MARK: self._mark,
            "TMPDIR": str(temporary),
            "PYTHONFAULTHANDLER": "1",
        }
        environment.pop("PYTHONSTARTUP", None)
        paths = (str(path) for path in (RUNNER, spec.recorder, folder))
        command = [spec.python, "-u", *paths, str(requests), str(answers)]
        try:
            # An interrupt that arrives during a fork would be lost.
            with self.log.open("wb") as output, defer_interrupts():
                self._process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(requests, answers),
                    # It takes no lock, so it is safe in a process with threads.
                    preexec_fn=parent_death_signal(signal.SIGKILL),  # noqa: PLW1509
                )
        except OSError as error:
            raise SideFailed(f"{self.name}: {spec.python} does not start: {error}") from error
        except KeyboardInterrupt:
            if hasattr(self, "_process"):
                self.close()
            raise
        finally:
            os.close(requests)
            os.close(answers)
        self._pending = b""
        self._has_answered = False

    def request(self, do: str, **values: Any) -> dict[str, Any]:
        """Send a request and return its answer.

        Raises
        ------
        SideFailed
            If there is no answer, for whatever reason.
        UserError
            If what the user named does not exist.
        """
        with contextlib.suppress(BrokenPipeError):
            os.write(self._requests, (json.dumps({"do": do, **values}) + "\n").encode())
        answer = json.loads(self._read_line())
        if answer["ok"]:
            return dict(answer)
        message = answer["message"]
        if answer["kind"] == "mistake":
            raise UserError(
                f"side {self.spec.label}", self.spec.text, f"a callable that exists; {message}"
            )
        if answer["kind"] == "argument":
            given = ",".join(f"{name}={value}" for name, value in self.spec.arguments.items())
            option, allowed = f"--args-{self.spec.label.lower()}", f"arguments of {self.spec.text}"
            raise UserError(option, given, f"{allowed}: {message}")
        if answer["kind"] == "missing":
            message = f"{self.spec.python} lacks what it imports: {message}"
            raise SideFailed(f"{self.name}: {message}")
        raise RunFailed(f"{self.name}: {message}")

    def _read_line(self) -> bytes:
        """Wait for a line, while time and memory last."""
        end_s = time.monotonic() + self.limits.request_s
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._answers], [], [], INTERVAL_S)
            if ready:
                received = os.read(self._answers, 65536)
                if not received:
                    raise SideFailed(f"{self.name} {self._ending()}")
                self._pending += received
                continue
            if self._process.poll() is not None:
                raise SideFailed(f"{self.name} {self._ending()}")
            if time.monotonic() > end_s:
                self.close()
                limit = f"{self.limits.request_s:g} s"
                raise SideFailed(f"{self.name} did not end within {limit}; it was stopped")
            self.peak_bytes = max(self.peak_bytes, used := self._memory())
            if used > self.limits.memory_bytes:
                self.close()
                limit = f"{self.limits.memory_bytes / 2**30:.3g} GiB"
                raise SideFailed(f"{self.name} used more than {limit} of memory; it was stopped")
        line, _, self._pending = self._pending.partition(b"\n")
        self._has_answered = True
        return line

    def _ending(self) -> str:
        """Describe how the process ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        status = self._process.returncode
        self.close()
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        if status is not None and status < 0:
            return f"was killed by {signal.Signals(-status).name}"
        last = [line.strip() for line in lines if line.strip()][-1:]
        text = f"; its last line: {last[0][:200]}" if last else ""
        if not self._has_answered:
            text += f" (with {self.spec.python}, which has to be Python 3.10 or newer with NumPy)"
        return f"ended its process with status {status}{text}"

    def _memory(self) -> int:
        """Return the memory of the process and its descendants, in bytes."""
        total = 0
        with contextlib.suppress(psutil.Error):
            leader = psutil.Process(self._process.pid)
            for process in [leader, *leader.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    total += process.memory_info().rss
        return total

    def close(self) -> None:
        """Terminate the process and all its descendants, also those in other process groups."""
        with defer_interrupts():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            end_s = time.monotonic() + TERMINATION_S
            while (alive := _marked_processes(self._mark)) and time.monotonic() < end_s:
                for process in alive:
                    with contextlib.suppress(psutil.Error):
                        process.kill()
                time.sleep(0.01)
            self._process.wait()
            for descriptor in (self._requests, self._answers):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
            self._requests = self._answers = -1


def _marked_processes(mark: str) -> list[psutil.Process]:
    """Find processes by their environment; one that has ended but was not awaited has none."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                found.append(process)
    return found


@contextlib.contextmanager
def working_folder() -> Any:
    """Create a folder for the tensors that cross between the sides, and remove it."""
    with tempfile.TemporaryDirectory(prefix="horizont-diff-") as folder:
        yield Path(folder)
