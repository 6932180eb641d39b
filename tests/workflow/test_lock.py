"""One measurement at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from horizont.workflow import measure
from horizont.workflow.measure import exclusive_measurement

LOCKING_PROCESS = """
import sys
from pathlib import Path
from horizont.workflow import measure
measure.LOCK_FILE = Path(sys.argv[1])
with measure.exclusive_measurement(print):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_second_measurement_waits_until_the_first_process_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another file than that of the machine, where a measurement may be running.
    monkeypatch.setattr(measure, "LOCK_FILE", tmp_path / "lock")
    messages: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", LOCKING_PROCESS, str(measure.LOCK_FILE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"

        def end_the_first(message: str) -> None:
            messages.append(message)
            holder.kill()

        with exclusive_measurement(end_the_first):
            (message,) = messages
            assert message.startswith("waiting for another measurement on this machine to end")
            assert f"(process {holder.pid} in {Path.cwd()}: -c" in message
            assert holder.wait(20) != 0
    with exclusive_measurement(messages.append):
        assert len(messages) == 1


def test_the_lock_does_not_depend_on_the_settings_of_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    code = "from horizont.workflow.measure import LOCK_FILE; print(LOCK_FILE)"
    lock_file = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
    assert lock_file == str(measure.LOCK_FILE)
