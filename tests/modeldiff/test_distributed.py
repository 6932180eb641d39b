"""A model in one process against several processes that average their gradients."""

from __future__ import annotations

import re
from pathlib import Path

import psutil
import pytest

from horizont.errors import UserError
from horizont.modeldiff import Options, Report, diff
from horizont.modeldiff.process import MARK
from tests.conftest import EXTENDED

MODELS = f"torch:{Path(__file__).parent / 'models' / 'distributed_models.py'}"
IMAGES, ROWS = "8x3x16x16", "8x4"

pytestmark = pytest.mark.framework("pytorch")


def compared(name: str, batch: str, arguments: str = "", processes: int = 2) -> Report:
    options = Options(args_a=arguments, args_b=arguments, ddp=processes)
    report = diff(f"{MODELS}:{name}", f"{MODELS}:{name}", batch, options)
    assert len(report.lines()) <= 25
    return report


@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=EXTENDED)])
def test_the_norm_of_a_batch_is_that_of_each_process(processes: int) -> None:
    report = compared("images", IMAGES, "norm='batch'", processes)
    (cause,) = report.repairs
    assert cause.candidate.what == "parts of the batch in a norm"
    assert (cause.candidate.value_a, cause.candidate.value_b) == ("1", str(processes))
    assert not report.unexplained
    assert report.versions[1]["processes"] == str(processes)
    accepted = Options(
        args_a="norm='batch'", args_b="norm='batch'", ddp=2, accept=(cause.candidate.what,)
    )
    assert diff(f"{MODELS}:images", f"{MODELS}:images", IMAGES, accepted).status == 0


@pytest.mark.parametrize("name", ["images", pytest.param("wrapped", marks=EXTENDED)])
def test_a_norm_of_each_example_makes_no_difference(name: str) -> None:
    report = compared(name, IMAGES)
    assert report.status == 0
    assert all(each.agreeing == len(each.differences) for each in report.agreements)


@pytest.mark.parametrize("hook", ["summed", pytest.param("rounded", marks=EXTENDED)])
def test_a_hook_of_the_author_is_used(hook: str) -> None:
    report = compared("wrapped", IMAGES, f"hook='{hook}'")
    assert report.status == 1
    assert {each.quantity for each in report.unexplained} == {"gradient", "update"}
    note = "every gradient of side B is 2 times that of side A"
    assert (note in report.notes) == (hook == "summed")


def test_the_mean_of_means_is_not_the_mean() -> None:
    report = compared("with_loss", ROWS, "ignore_index=1")
    (cause,) = report.repairs
    assert str(cause.candidate) == "separate means of the loss: 1 against 2"
    assert not report.unexplained


@pytest.mark.parametrize(
    ("arguments", "causes"),
    [
        pytest.param("", [], marks=EXTENDED),
        ("reduction='sum'", ["reduction of the loss: sum against half the sum"]),
    ],
)
def test_the_reduction_of_the_loss(arguments: str, causes: list[str]) -> None:
    report = compared("with_loss", ROWS, arguments)
    assert [str(each.candidate) for each in report.repairs] == causes
    assert not report.unexplained


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("Second", "how='error'", r"side B, process 1 \(.*\): ValueError: no second process"),
        ("Second", "how='exit'", r"side B, process 1 \(.*\) ended its process with status 3"),
        ("Unused", "", r"side B, process . \(.*\): RuntimeError: Expected to have finished"),
    ],
)
def test_a_process_that_fails_ends_the_others(name: str, arguments: str, sentence: str) -> None:
    report = compared(name, ROWS, arguments)
    assert report.status == 2
    assert re.match(sentence, report.unknown)
    children = psutil.Process().children(recursive=True)
    assert not [each for each in children if MARK in _environment(each)]


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


@pytest.mark.parametrize(
    ("batch", "processes", "sentence"),
    [
        ("7x4", 2, r"--input: '7x4' is not possible; allowed: a multiple of 2 examples, 4 or more"),
        ("2x4", 2, "4 or more, for 2 processes"),
        ("8x4", 0, "--ddp: 0 is not possible; allowed: a number of processes, 1 or more"),
    ],
)
def test_what_cannot_be_divided_is_refused(batch: str, processes: int, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        compared("with_loss", batch, processes=processes)


def test_a_framework_without_processes_is_refused() -> None:
    with pytest.raises(UserError, match=r"--ddp: 2 .* 1 for side B keras:m:f; more for torch:"):
        diff(f"{MODELS}:images", "keras:m:f", IMAGES, Options(ddp=2))
