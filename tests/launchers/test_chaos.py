"""Every role of every system is killed and paused at random moments, the launcher included.

Afterwards only the record is left of the run, which says what happened, and the next run works. The
moments are seeded for each case. The first and the last case of three systems represent the others,
which are extended tests.
"""

from __future__ import annotations

import contextlib
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.conftest import EXTENDED, small_run

from horizont.config.system import SYSTEMS, parse_system
from horizont.workflow.chaos.cases import Case, draw_moment
from horizont.workflow.chaos.clocks import find_compiler
from horizont.workflow.chaos.execution import open_bench, run_case, run_without_fault
from horizont.workflow.chaos.faults import CLOCK_STEP_S

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]

#: Concurrent runs: they wait more than they compute.
CONCURRENT_RUNS = 3

#: Systems whose launcher dies, too.
WITH_LAUNCHER = (
    "tensorflow/async/parameter_server",
    "pytorch/async/parameter_server",
    "pytorch/sync/allreduce",
    "pytorch/sync/mpi",
    "mxnet/async/parameter_server",
)
REPRESENTATIVE = ("pytorch/sync/allreduce",)


def a_case(system: str, target: str, fault: str, launcher_fault: str = "") -> Case:
    """Return a case at a moment that its other properties decide."""
    dice = random.Random(f"{system} {target} {fault} {launcher_fault}")
    return Case("local", system, fault, target, *draw_moment(dice, "local"), launcher_fault)


def cases_of(system: str) -> list[Case]:
    """List the cases of a system."""
    info = SYSTEMS[system]
    first = "worker-0" if system.endswith("local") else "worker-1"
    targets = [first, *(f"{role}-0" for role in info.roles)]
    if parse_system(system).is_ring:  # where the others connect to the first worker
        targets.append("worker-0")
    listed = [a_case(system, target, fault) for target in targets for fault in ("kill", "pause")]
    if system in WITH_LAUNCHER:
        listed += [a_case(system, "launcher", fault) for fault in ("kill", "terminate")]
        paused = info.service_roles or ("worker",)
        listed += [a_case(system, f"{role}-0", "pause", "kill") for role in paused]
    if system == "pytorch/sync/allreduce":
        listed += [a_case(system, "launcher", "interrupt"), a_case(system, "launcher", "hang_up"),
                   a_case(system, "sampler", "kill"), a_case(system, "sampler", "pause", "kill"),
                   a_case(system, "worker-1", "fill_disk"),
                   a_case(system, "worker-1", "kill", "interrupt")]  # fmt: skip
    return listed


def test_there_are_enough_cases() -> None:
    listed = [case for system in SYSTEMS for case in cases_of(system)]
    assert len(listed) == len(set(listed)) >= 50


@pytest.mark.parametrize(
    ("system", "is_whole"),
    [
        pytest.param(
            system,
            is_whole,
            marks=[
                pytest.mark.framework(system.partition("/")[0]),
                *([EXTENDED] if is_whole else []),
            ],
        )
        for is_whole, systems in ((False, REPRESENTATIVE), (True, SYSTEMS))
        for system in systems
    ],
)
def test_only_the_record_is_left(system: str, is_whole: bool, small_cifar: Path) -> None:
    workload = small_run(system).workload
    selected = cases_of(system)
    if not is_whole:
        selected = [selected[0], selected[-1]]
    with contextlib.ExitStack() as stack:
        benches = [
            stack.enter_context(open_bench(small_cifar, "lenet5-cifar10", workload))
            for _ in selected
        ]
        with ThreadPoolExecutor(CONCURRENT_RUNS) as pool:
            outcomes = list(pool.map(run_case, selected, benches))
        assert not [(str(one.case), one.defects) for one in outcomes if one.defects]
        assert any(outcome.happened for outcome in outcomes)
        # The next run works, and replaces the record of one that failed.
        after = next(i for i, outcome in enumerate(outcomes) if outcome.record)
        assert run_without_fault("local", system, benches[after]) == ""


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler for the library of the clock")
@pytest.mark.parametrize(
    "system",
    [
        pytest.param("tensorflow/local", marks=pytest.mark.framework("tensorflow")),
        pytest.param("jax/sync/allreduce", marks=pytest.mark.framework("jax")),
    ],
)
def test_a_clock_that_is_set_back_is_in_the_record(system: str, small_cifar: Path) -> None:
    case = Case("local", system, "set_clock_back", "worker-0", "first_step", 0.1)
    with open_bench(small_cifar, "lenet5-cifar10", small_run(system).workload) as bench:
        outcome = run_case(case, bench)
    assert outcome.happened
    assert outcome.defects == []
    assert outcome.record is not None
    result = outcome.record.result
    assert result.disturbed
    assert result.clock_step_s == pytest.approx(CLOCK_STEP_S, abs=0.1)
    if result.status == "failed":
        assert parse_system(system).info.needs_steady_clock
        assert "a wall clock was set by 3.0 s" in result.reason
