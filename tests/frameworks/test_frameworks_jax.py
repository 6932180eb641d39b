"""The adapter of JAX in processes of its own: its threads, its buffers, its compiled exchange."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
from tests.conftest import EXTENDED, PROGRAM_PATH, ROOT, run_in_framework

from horizont.config.system import framework_python
from horizont.launchers.local import reserve_ports

pytestmark = pytest.mark.framework("jax")

PROGRAM = ("-m", "tests.frameworks.jax_programs")


def last_line(printed: str) -> dict[str, Any]:
    return dict(json.loads(printed.strip().splitlines()[-1]))


@pytest.mark.parametrize("count", [1, 3])
def test_xla_computes_with_as_many_threads_as_were_granted(count: int) -> None:
    facts = last_line(run_in_framework("jax", *PROGRAM, "threads", str(count)))
    assert len(facts["pool"]) == count
    if count == 1:
        assert len(facts["used"]) == 1, facts["used"]


def test_a_step_is_given_the_buffers_of_the_state() -> None:
    assert last_line(run_in_framework("jax", *PROGRAM, "threads", "1"))["donated"]


@pytest.mark.parametrize(
    ("compression", "number"), [pytest.param("none", "f32", marks=EXTENDED), ("float16", "f16")]
)
def test_all_gradients_are_exchanged_by_one_instruction(compression: str, number: str) -> None:
    words = (*PROGRAM, "exchange")
    with reserve_ports(["127.0.0.1"], 0) as (port,):
        other = subprocess.Popen(
            [framework_python("jax"), *words, "1", str(port), compression],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": PROGRAM_PATH},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with other:
            facts = last_line(run_in_framework("jax", *words, "0", str(port), compression))
    assert facts["operands"] == [[number] * 10]  # LeNet-5 has ten weights
    assert other.returncode == 0
