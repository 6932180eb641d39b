"""Hostile models: one sentence each, in time, and no process remains."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from horizont.errors import UserError
from horizont.modeldiff.process import MARK, Limits, SideFailed, SideProcess
from horizont.modeldiff.sides import SideSpec

MODELS = Path(__file__).parent / "models"

#: Seconds that only a model that never ends takes, however busy the machine is.
LIMITS = Limits(request_s=120.0, memory_bytes=300 * 2**20)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    started = []

    def begin(name: str, python: str = sys.executable, **arguments: Any) -> SideProcess:
        target = name if ":" in name else f"{MODELS / 'hostile.py'}:{name}"
        spec = SideSpec(
            "A", f"plain:{name}", "plain", MODELS / "plain_recorder.py", target, python, arguments
        )
        limits = replace(LIMITS, request_s=1.0) if name == "endless" else LIMITS
        started.append(SideProcess(spec, tmp_path / "a", limits))
        (tmp_path / "a" / "batch.npz").write_bytes(_batch())
        return started[-1]

    yield begin
    for each in started:
        each.close()
        assert not processes_of(each._mark)


def _batch() -> bytes:
    import io

    import numpy as np

    file = io.BytesIO()
    np.savez(file, batch=np.ones(2))
    return file.getvalue()


def processes_of(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def open_model(process: SideProcess) -> dict[str, Any]:
    return process.request(
        "open", target=process.spec.target, arguments=dict(process.spec.arguments),
        batch="batch.npz", dtype="float64", out="weights.npz",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("endless", r"did not end within 1 s; it was stopped"),
        ("leaves", r"ended its process with status 7; its last line: the last words"),
        ("greedy", r"used more than 0\.293 GiB of memory; it was stopped"),
        ("crashing", r"was killed by SIGSEGV"),
        ("lacking", r"lacks what it imports: .*No module named 'a_package_that_is_not_installed'"),
        ("raising", r"ValueError: no such width"),
        ("reading", r"EOFError: EOF when reading a line"),
        ("a_module.nowhere:build", r"lacks what it imports: .*a_module"),
    ],
)
def test_a_hostile_model_is_one_sentence(start: Any, name: str, sentence: str) -> None:
    process = start(name)
    with pytest.raises(SideFailed) as caught:
        open_model(process)
    text = str(caught.value)
    assert re.search(sentence, text)
    assert text.startswith("side A (plain:")
    assert "\n" not in text


def test_output_of_a_model_disturbs_nothing(start: Any) -> None:
    assert open_model(start("talkative"))["layers"] == []


def test_children_in_other_sessions_end_with_the_side(start: Any, tmp_path: Path) -> None:
    process = start("forking", path=str(tmp_path / "pid"))
    with pytest.raises(SideFailed, match="status 3"):
        open_model(process)
    child = int((tmp_path / "pid").read_text())
    assert child not in [each.pid for each in processes_of(process._mark)]
    # A process that has ended may wait for its parent still.
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("name", ["no_such_name", "NUMBER"])
def test_what_does_not_exist_is_a_mistake_of_the_user(start: Any, name: str) -> None:
    with pytest.raises(UserError, match=name):
        open_model(start(name))


def test_an_interpreter_that_is_none_is_named(start: Any) -> None:
    with pytest.raises(SideFailed, match=r"ended its process with status \d+"):
        open_model(start("fine", python="/bin/false"))
    with pytest.raises(SideFailed, match="does not start"):
        start("fine", python="/etc/passwd")
