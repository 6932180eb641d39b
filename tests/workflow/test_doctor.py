"""`horizont doctor`: the load that is there is named, and the verdict follows from it."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.conftest import is_running, wait_for

from horizont.errors import UserError
from horizont.monitoring.background import BackgroundLoad, BackgroundMeter
from horizont.monitoring.counters import cpu_busy_s
from horizont.statistics.noise import Noise
from horizont.workflow import measure
from horizont.workflow.doctor import MachineState, diagnose, report
from horizont.workflow.paths import Paths

QUIET = MachineState(
    load=BackgroundLoad(0.01, 0.0),
    cores_by_program={"editor": 0.01},
    noise=Noise(0.005, 0.02),
    repetition_s=0.01,
    unusable={"pytorch": "", "mxnet": "mxnet is not installed"},
    disk_free_bytes=2**36,
)

COMMAND = """
import sys
from pathlib import Path
from horizont.workflow import measure
measure.LOCK_FILE = Path(sys.argv[1])
from horizont.cli import main
sys.exit(main(["doctor", *sys.argv[2:]]))
"""


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the lock of this machine, where a measurement may be running."""
    monkeypatch.setattr(measure, "LOCK_FILE", tmp_path / "lock")
    return measure.LOCK_FILE


@contextmanager
def busy_program(folder: Path) -> Iterator[str]:
    """Keep a quarter of the CPUs busy under a name of its own."""
    program = folder / "busy-neighbour"
    program.symlink_to("/bin/sh")
    count = math.ceil((psutil.cpu_count() or 1) / 4)
    busy = [subprocess.Popen([program, "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield program.name
    finally:
        for process in busy:
            process.kill()
            process.wait()


def start_doctor(lock: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(lock), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_busy_program_is_named_and_the_exit_status_is_1(
    study_folder: Paths, lock: Path, tmp_path: Path
) -> None:
    before = set(study_folder.root.rglob("*"))
    with busy_program(tmp_path) as name, start_doctor(lock, "--seconds", "2") as process:
        output, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (1, "")
    lines = output.splitlines()
    assert "other programs use" in lines[0]
    assert any(line.startswith("other load") and name in line for line in lines), output
    assert any("repetitions of" in line for line in lines)
    assert len(lines) <= 25
    assert lines[-1].startswith("Next: ")
    assert set(study_folder.root.rglob("*")) - before <= {lock, tmp_path / name}


def test_own_processes_are_no_load_by_others(tmp_path: Path) -> None:
    def busy_s() -> float:
        return cpu_busy_s(psutil.cpu_times())

    meter, start_s, start_busy_s = BackgroundMeter(), time.monotonic(), busy_s()
    own = "import time\nwhile time.process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-c", own], check=True)
    end_s = time.process_time() + 0.5
    while time.process_time() < end_s:
        pass
    others, span_s = meter.load(), time.monotonic() - start_s
    others_s = others.cpu_fraction * span_s * (psutil.cpu_count() or 1)
    assert busy_s() - start_busy_s - others_s > 0.8  # of 1 s by this process and its child
    with busy_program(tmp_path) as name:
        meter = BackgroundMeter()
        time.sleep(0.2)
        assert name not in meter.cores_by_name()


def test_during_another_measurement_the_noise_is_not_measured(
    study_folder: Paths, lock: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with measure.exclusive_measurement(print):
        start_s = time.monotonic()
        assert diagnose(study_folder, 300.0) == 1
    assert time.monotonic() - start_s < 60
    text = capfd.readouterr().out
    assert "another measurement is running" in text.splitlines()[0]
    assert "not measured" in text


def test_a_quiet_machine_can_measure() -> None:
    assert QUIET.problems() == []
    lines = report(QUIET, {})
    assert lines[0] == "This machine can measure now."
    assert lines[-1] == "Next: horizont repro"
    assert "mxnet is not installed" in "\n".join(lines)
    differences = next(line for line in lines if line.startswith("smallest difference"))
    assert "1.8% in 1 min (3 blocks), 0.4% in 5 min" in differences


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"load": BackgroundLoad(0.3, 0.0)}, "30% of the CPUs"),
        ({"load": BackgroundLoad(0.0, 0.2)}, "hypervisor gives 20%"),
        ({"noise": Noise(0.08, 0.0)}, "differ by 8.0%"),
        ({"noise": None}, "another measurement"),
        ({"unusable": {"pytorch": "pytorch is not installed"}}, "no framework"),
        ({"disk_free_bytes": 2**20}, "disk"),
    ],
)
def test_each_problem_is_stated_first(change: dict[str, object], words: str) -> None:
    state = replace(QUIET, **change)  # type: ignore[arg-type]
    assert len(state.problems()) == 1
    assert words in report(state, {})[0]


@pytest.mark.parametrize("duration_s", [0.0, -1.0, 1e9, math.nan])
def test_an_impossible_duration_is_refused(study_folder: Paths, duration_s: float) -> None:
    with pytest.raises(UserError, match="--seconds"):
        diagnose(study_folder, duration_s)


def test_an_interrupt_leaves_nothing(study_folder: Paths, lock: Path) -> None:
    before = set(study_folder.root.rglob("*"))
    with start_doctor(lock, "--seconds", "120") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "noise: process 1 of 8, about 120 s remaining\n"
        doctor = psutil.Process(process.pid)
        wait_for(lambda: bool(doctor.children()), "no computation was started")
        started = doctor.children(recursive=True)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "")
    assert "Traceback" not in errors
    wait_for(
        lambda: not any(is_running(one.pid) for one in started),
        "the computation outlives the command",
    )
    assert set(study_folder.root.rglob("*")) - before <= {lock}
