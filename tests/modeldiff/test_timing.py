"""Times of two models: what is reported, and when they are not comparable."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from horizont.cli import main
from horizont.config.system import framework_python
from horizont.modeldiff import Options, diff, timing
from horizont.modeldiff.recording import Call
from horizont.modeldiff.timing import PartTimes, Profile
from horizont.statistics.intervals import Estimate

MODELS = Path(__file__).parent / "models"
TORCH = f"torch:{MODELS / 'torch_models.py'}"

TIMED = Options(time=True)


@pytest.fixture(autouse=True)
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SEGMENT_S", 0.01)


@pytest.mark.framework("pytorch")
def test_each_step_of_a_slow_model_takes_its_time() -> None:
    report = diff(f"{TORCH}:Slow", f"{TORCH}:Slow", "2x3", TIMED)
    assert report.timing is not None
    assert [each.part for each in report.timing.parts] == [*timing.PARTS.values()]
    assert all(each.a_s >= 0.02 for each in report.timing.parts)
    assert "not comparable" not in str(report)


@pytest.mark.framework("pytorch")
def test_times_of_different_models_are_not_comparable() -> None:
    report = diff(f"{TORCH}:Slow", f"{TORCH}:Slow", "2x3", Options(args_b="power=3", time=True))
    assert report.unexplained
    assert report.timing is not None
    assert "not comparable" in report.lines()[-2]
    report = diff("torch:no.such.module:build", f"{TORCH}:Slow", "2x3", TIMED)
    assert report.timing is None
    assert report.unknown.startswith("side A")


def test_the_sentence_names_the_faster_side_or_none() -> None:
    def text(low: float, value: float, high: float) -> str:
        return str(PartTimes("evaluation", 1e-3, 2e-3, Estimate(value, low, high, 0.95, 6)))

    start = "evaluation: A 1 ms, B 2 ms; "
    assert text(1.5, 2.0, 2.5) == f"{start}A is 2 times as fast (1.5 to 2.5)"
    assert text(0.25, 0.5, 0.8) == f"{start}B is 2 times as fast (1.25 to 4)"
    assert text(0.9, 1.0, 1.2) == f"{start}no difference (B over A 0.9 to 1.2)"
    many = [Call("many", 1, 0.0, 0.0005, 0.0005)] * 2000
    profile = Profile("A", [Call("few", 1, 0.0, 9.0, 3.0), *many, Call("none", 1, 0.0, 0.0, 0.0)])
    assert str(profile) == "A 2,002 calls of operators (few 75% in 1, many 25% in 2000)"


@pytest.mark.framework("pytorch")
def test_both_steps_are_in_one_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    side, path, values = f"{TORCH}:Slow", tmp_path / "step.json.gz", tmp_path / "report.json"
    words = ["diff", side, side, "--input", "2x3", "--trace", str(path), "--json", str(values)]
    assert main(words) == 0
    assert str(path) in capsys.readouterr().out
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {1: f"A: {side}", 2: f"B: {side}"}
    for pid in names:
        calls = [event for event in events if event["ph"] == "X" and event["pid"] == pid]
        assert min(call["ts"] for call in calls) == 0
        assert {"aten::addmm", "aten::linear"} & {call["name"] for call in calls}
    profiles = json.loads(values.read_text())["timing"]["profiles"]
    assert [each["label"] for each in profiles] == ["A", "B"]
    assert profiles[0]["operators"]


@pytest.mark.parametrize("option", ["--json", "--page", "--pairs"])
def test_a_file_is_in_a_folder_that_exists(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path, tmp_path / "missing" / "file"):
        assert main(["diff", "torch:a:b", "torch:a:b", "--input", "2x3", option, str(path)]) == 3
        assert f"{option}: '{path}' is not possible" in capsys.readouterr().err


def test_a_page_needs_a_name_that_browsers_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.txt"
    assert main(["diff", "torch:a:b", "torch:a:b", "--input", "2x3", "--page", str(path)]) == 3
    assert "--page" in (text := capsys.readouterr().err)
    assert text.endswith("a name that ends in .html\n")


def test_a_trace_needs_a_name_that_viewers_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path / "step.txt", tmp_path / "missing" / "step.json"):
        assert main(["diff", "torch:a:b", "torch:a:b", "--input", "2x3", "--trace", str(path)]) == 3
        assert "--trace" in capsys.readouterr().err


@pytest.mark.framework("pytorch")
def test_what_is_timed_has_all_threads(tmp_path: Path) -> None:
    program = "import torch; print(torch.get_num_threads())"
    command = [framework_python("pytorch"), "-c", program]
    every = int(subprocess.check_output(command, text=True))
    model, log = tmp_path / "model.py", tmp_path / "threads.txt"
    model.write_text(
        f"""
import torch


class Model(torch.nn.Linear):
    def __init__(self):
        super().__init__(8, 4)

    def forward(self, x):
        with open({str(log)!r}, "a") as file:
            print(torch.get_num_threads(), file=file)
        return super().forward(x)
"""
    )
    report = diff(f"torch:{model}:Model", f"torch:{model}:Model", "4x8", TIMED)
    assert report.timing is not None
    threads = [int(line) for line in log.read_text().split()]
    assert (threads[0], threads[-1]) == (max(1, every // 4), every)
