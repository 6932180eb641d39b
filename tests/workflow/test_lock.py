"""One measurement at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from horizont.workflow.measure import exclusive_measurement

HOLDER = """
import sys
from horizont.pipeline.lock import measuring_alone
with measuring_alone(print):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_one_waits_until_the_first_has_ended_however(tmp_path: Path) -> None:
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # no setting of the user makes two locks
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"

        def waiting(text: str) -> None:
            said.append(text)
            holder.kill()

        with exclusive_measurement(waiting):
            assert said == ["waiting for another measurement on this machine to end"]
            assert holder.wait(20) != 0
    with exclusive_measurement(said.append):
        assert len(said) == 1
