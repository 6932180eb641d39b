import subprocess
import sys

from horizont.monitoring.progress import StepCount, StepCounter, read_step_count

_WORKER = """
import sys, time
from pathlib import Path
from horizont.monitoring.progress import StepCounter
counter = StepCounter(Path(sys.argv[1]), 100)
counter.set(41)
counter.set(42)
print("set", flush=True)
sys.stdin.read()
"""


def test_a_watcher_sees_each_step(tmp_path):
    path = tmp_path / "progress"
    with StepCounter(path, 7) as counter:
        assert read_step_count(path) == StepCount(0, 7)
        counter.set(3)
        assert read_step_count(path) == StepCount(3, 7)
        counter.set(2**40)
        assert read_step_count(path) == StepCount(2**40, 7)
    assert read_step_count(path) == StepCount(2**40, 7)


def test_the_count_outlives_a_killed_worker(tmp_path):
    path = tmp_path / "progress"
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with worker:
        assert worker.stdout.readline() == b"set\n"
        assert read_step_count(path) == StepCount(42, 100)
        worker.kill()
    assert read_step_count(path) == StepCount(42, 100)


def test_nothing_is_read_from_a_missing_or_cut_file(tmp_path):
    path = tmp_path / "progress"
    assert read_step_count(path) is None
    path.write_bytes(b"1234567")
    assert read_step_count(path) is None


def test_only_the_file_itself_is_left(tmp_path):
    StepCounter(tmp_path / "progress").close()
    assert [path.name for path in tmp_path.iterdir()] == ["progress"]
