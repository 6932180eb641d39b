"""The adapter of MXNet in processes of its own; see `tests.frameworks.mxnet_programs`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.conftest import PROGRAM_PATH
from tests.frameworks.mxnet_programs import (
    GLOBAL_BATCH,
    RATE,
    SIZES,
    STEPS,
    Arrays,
    examples,
    setup,
)

from horizont.config.jobs import WorkerJob
from horizont.config.run import Run
from horizont.config.system import framework_python, installed_version, parse_system
from horizont.errors import UserError
from horizont.frameworks.mxnet.adapter import ADAPTER, library_environment, role_environment
from horizont.launchers.base import open_cluster
from horizont.launchers.plan import ProcessPlan, plan_run, role_assignment
from horizont.launchers.process import ProcessGroup, terminating, wait_for_exit
from horizont.launchers.supervisor import RunFailed, supervise

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(installed_version("mxnet") is None, reason="mxnet is not installed"),
]

PROGRAM = ("-m", "tests.frameworks.mxnet_programs")
DEADLINE_S = 240


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Arrays:
    """Run the single-process program and return what it wrote."""
    folder = tmp_path_factory.mktemp("alone")
    ended = subprocess.run(
        [framework_python("mxnet"), *PROGRAM, "facts"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": PROGRAM_PATH,
            "HORIZONT_PARENT_PID": str(os.getpid()),
        },
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout + ended.stderr == ""
    return dict(np.load(folder / "arrays.npz"))


def group(facts: Arrays, prefix: str) -> Arrays:
    found = {
        name.removeprefix(f"{prefix}/"): value
        for name, value in facts.items()
        if name.startswith(f"{prefix}/")
    }
    assert found, prefix
    return found


def same(one: Arrays, other: Arrays) -> bool:
    assert set(one) == set(other)
    return all(np.array_equal(one[name], other[name]) for name in one)


def in_float32(arrays: Arrays) -> Arrays:
    return {name: value.astype("float32") for name, value in arrays.items()}


def normalised(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Normalise bytes by the definition of the normalisation."""
    channel = (1, 3, 1, 1)
    mean, std = setup().normalisation.mean, setup().normalisation.std
    return (images / 255.0 - mean.reshape(channel)) / std.reshape(channel)


def convolved(maps: NDArray[Any], kernel: NDArray[Any], bias: NDArray[Any]) -> NDArray[Any]:
    windows = np.lib.stride_tricks.sliding_window_view(maps, kernel.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, kernel) + bias[:, None, None]


def pooled(maps: NDArray[Any]) -> NDArray[Any]:
    examples, channels, height, width = maps.shape
    return maps.reshape(examples, channels, height // 2, 2, width // 2, 2).max(axis=(3, 5))


def logits_of(images: NDArray[np.uint8], weights: Arrays) -> NDArray[Any]:
    """Compute the forward pass of LeNet-5 in NumPy."""
    values = normalised(images)
    for layer in ("conv1", "conv2"):
        values = convolved(values, weights[f"{layer}.weight"], weights[f"{layer}.bias"])
        values = pooled(np.tanh(values))
    values = values.reshape(len(values), -1)
    for layer in ("fc1", "fc2", "fc3"):
        values = values @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]
        values = values if layer == "fc3" else np.tanh(values)
    return values


def loss_of(step: int, weights: Arrays) -> float:
    """Return the mean cross entropy of the batch of a step."""
    selected = examples().order[step]
    logits = logits_of(examples().images[selected], weights)
    highest = logits.max(axis=1)
    norms = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
    return float(np.mean(norms - logits[np.arange(len(selected)), examples().labels[selected]]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_are_read_as_they_were_set(facts: Arrays, dtype: str) -> None:
    given = {name: value.astype(dtype) for name, value in setup().weights.items()}
    initial = group(facts, f"{dtype}/initial")
    assert list(initial) == list(given)
    assert same(initial, given)
    assert all(value.dtype == dtype for value in initial.values())
    assert same(group(facts, f"{dtype}/not_updated"), given)


def test_the_forward_pass_matches_numpy(facts: Arrays) -> None:
    data = examples()
    first = logits_of(data.images[data.order[0]], setup().weights)
    np.testing.assert_allclose(facts["float64/logits"], first, rtol=0, atol=1e-13)
    every = logits_of(data.images, setup().weights)
    np.testing.assert_allclose(facts["float64/predicted"], every, rtol=0, atol=1e-13)
    np.testing.assert_allclose(facts["float32/predicted"], every, rtol=0, atol=1e-5)
    assert facts["float64/loss"] == pytest.approx(loss_of(0, setup().weights), rel=1e-14)


def test_every_loss_follows_from_the_weights_before_it(facts: Arrays) -> None:
    # Covers order, labels and the smaller last batch: a wrong one changes the loss.
    before = [setup().weights, *(group(facts, f"float64/after{step}") for step in (1, 2))]
    expected = [loss_of(step, weights) for step, weights in enumerate(before)]
    np.testing.assert_allclose(facts["float64/losses"], expected, rtol=1e-13)


def test_the_gradients_match_difference_quotients(facts: Arrays) -> None:
    length = 1e-5  # truncation error of the order of its square, rounding error of 1e-16 / length
    random = np.random.default_rng(1)
    for name, gradient in group(facts, "float64/gradient").items():
        direction = random.normal(size=gradient.shape)
        direction /= np.linalg.norm(direction)
        ahead, behind = (
            loss_of(0, {**setup().weights, name: setup().weights[name] + sign * length * direction})
            for sign in (1, -1)
        )
        assert (gradient * direction).sum() == pytest.approx(
            (ahead - behind) / (2 * length), abs=1e-9
        )


@pytest.mark.parametrize(("dtype", "unit"), [("float32", 2.0**-24), ("float64", 2.0**-53)])
def test_a_step_follows_the_gradient_exactly(facts: Arrays, dtype: str, unit: float) -> None:
    # In float64 the learning rate must not be rounded to float32.
    before, after = group(facts, f"{dtype}/initial"), group(facts, f"{dtype}/after1")
    for name, gradient in group(facts, f"{dtype}/gradient").items():
        expected = before[name].astype("float64") - RATE * gradient.astype("float64")
        np.testing.assert_allclose(after[name], expected, rtol=4 * unit, atol=4 * unit * RATE)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_instrumented_steps_are_the_same_steps(facts: Arrays, dtype: str) -> None:
    assert same(group(facts, f"{dtype}/timed"), group(facts, f"{dtype}/instrumented"))
    assert not same(group(facts, f"{dtype}/timed"), group(facts, f"{dtype}/initial"))
    assert facts[f"{dtype}/marks"].tolist() == ["forward", "backward", "update"] * len(SIZES)


def test_synchronize_waits_for_one_step_only(facts: Arrays) -> None:
    first_s, both_s, idle_s = facts["synchronized_s"]
    assert first_s < 0.85 * both_s  # a half, plus other work of the process
    assert idle_s - both_s < 0.1 * both_s  # it waits for the slow update, too


def test_a_phase_does_not_begin_before_the_previous_one_has_ended(facts: Arrays) -> None:
    blocked, free = facts["blocked_s"], facts["free_s"]
    assert blocked[1] > blocked[0]
    assert free[1] < free[0]  # without blocking the short operation ends first


def test_instrumented_steps_are_contiguous_and_the_sum_of_their_phases(facts: Arrays) -> None:
    table = group(facts, "looped")
    instrumented = table["kind"] == "instrumented"
    start_s, step_s = table["start_s"][instrumented], table["step_s"][instrumented]
    np.testing.assert_allclose(start_s[1:], start_s[:-1] + step_s[:-1], rtol=0, atol=1e-9)
    phases = [
        table[f"{name}_s"][instrumented] for name in ("load", "forward", "backward", "update")
    ]
    assert all((spent_s >= 0).all() for spent_s in phases)
    np.testing.assert_allclose(np.sum(phases, axis=0), step_s, rtol=0, atol=1e-9)
    assert np.isfinite(table["loss"]).all()
    assert table["examples"].tolist() == [12] * 6


def test_the_mutations_show(facts: Arrays) -> None:
    assert np.abs(facts["hwc/logits"] - facts["float64/predicted"]).max() > 1e-2
    for quantity, mean in (("loss", "loss"), ("gradient", "gradient/fc3.bias")):
        expected = SIZES[0] * facts[f"float64/{mean}"]
        np.testing.assert_allclose(facts[f"sum/{quantity}"], expected, rtol=1e-13, atol=1e-14)


def test_threads_cannot_be_set_too_late(facts: Arrays) -> None:
    assert facts["rejected/configure"]


def distributed(system: str) -> Run:
    return Run.model_validate(
        {
            "experiment": "test",
            "workload_name": "test",
            "workload": {
                "network": "lenet5",
                "dataset": "cifar10",
                "optimizer": {"learning_rate": RATE},
            },
            "system": parse_system(system),
            "topology": {"workers": 2, "servers": 1},
            "steps": {"warmup": 1, "timed": STEPS - 2, "instrumented": 1},
            "global_batch": GLOBAL_BATCH,
            "block": 0,
            "seed": 0,
            "sampler_hz": 0,
            "timeout_s": DEADLINE_S,
        }
    )


@contextlib.contextmanager
def planning(system: str, folder: Path, word: str = "train") -> Iterator[list[ProcessPlan]]:
    run = distributed(system)
    argv = (framework_python("mxnet"), *PROGRAM, word)
    with open_cluster(run.topology, folder) as hosts:
        plan = plan_run(
            run, folder, folder, hosts.endpoints([host for _, _, host in role_assignment(run)])
        )
        yield [
            dataclasses.replace(
                process,
                argv=argv,
                environment={**process.environment, "PYTHONPATH": PROGRAM_PATH},
            )
            for process in plan.processes
        ]


def run_workers(system: str, folder: Path, word: str = "train") -> list[Arrays]:
    """Run all processes to their end and return the arrays of the workers."""
    groups: list[ProcessGroup] = []
    with planning(system, folder, word) as processes, terminating(groups):
        for process in processes:
            process.folder.mkdir(parents=True)
            groups.append(ProcessGroup(process, folder / f"{process.name}.log"))
        supervise(groups, DEADLINE_S, lambda: None)
        passive = [group for group in groups if group.process.returncode is None]
        assert all(wait_for_exit([group], timeout_s=10) for group in passive), "it did not end"
        assert all(group.reap() == 0 for group in passive)
        assert all(group.log.read_text() == "" for group in groups)
    workers = [group.plan for group in groups if not group.plan.is_service]
    results = [dict(np.load(worker.folder / "arrays.npz")) for worker in workers]
    assert all(arrays.pop("listeners").tolist() == ["127.0.0.1"] for arrays in results)
    return results


def test_synchronous_workers_train_like_one_process(facts: Arrays, tmp_path: Path) -> None:
    workers = run_workers("mxnet/sync/parameter_server", tmp_path)
    alone = group(facts, "alone/final")
    for arrays in workers:
        assert same(group(arrays, "initial"), in_float32(setup().weights))
        assert arrays["marks"].tolist() == ["forward", "backward", "communication"] * 2
        for name, value in group(arrays, "final").items():
            # Two partial sums instead of one: a few float32 roundings of gradient and weight at
            # each step, and an update is about a hundred times smaller than its weight.
            update = alone[name] - setup().weights[name]
            assert np.linalg.norm(value - alone[name]) < 1e-5 * np.linalg.norm(update), name
    # The mean of the losses of the workers.
    halves = np.mean([arrays["losses"] for arrays in workers], axis=0)
    np.testing.assert_allclose(halves, facts["alone/losses"], rtol=1e-6)


def test_asynchronous_workers_run_their_steps(tmp_path: Path) -> None:
    workers = run_workers("mxnet/async/parameter_server", tmp_path)
    for arrays in workers:
        assert same(group(arrays, "initial"), in_float32(setup().weights))
        assert arrays["losses"].shape == (STEPS,)
        assert np.isfinite(arrays["losses"]).all()
        assert arrays["marks"].tolist() == ["forward", "backward", "communication"] * 2
        for name, value in group(arrays, "final").items():
            assert np.isfinite(value).all()
            assert not np.array_equal(value, setup().weights[name])


def test_a_failing_worker_ends_with_its_reason(tmp_path: Path) -> None:
    # By default MXNet makes it wait for the others, and them for it, until the deadline.
    with pytest.raises(RunFailed, match=r"worker-1 ended .* a setting: 'wrong'"):
        run_workers("mxnet/sync/parameter_server", tmp_path, "fail")


def test_each_role_has_its_address(tmp_path: Path) -> None:
    with planning("mxnet/sync/parameter_server", tmp_path) as processes:
        environments = [role_environment(p.job) for p in processes if isinstance(p.job, WorkerJob)]
    assert [variables["DMLC_ROLE"] for variables in environments] == [
        "scheduler",
        "server",
        "worker",
        "worker",
    ]
    assert len({variables["PORT"] for variables in environments}) == 4
    assert {variables["DMLC_NODE_HOST"] for variables in environments} == {"127.0.0.1"}
    assert {variables["DMLC_PS_ROOT_PORT"] for variables in environments} == {
        environments[0]["PORT"]
    }
    assert {
        (variables["DMLC_NUM_WORKER"], variables["DMLC_NUM_SERVER"]) for variables in environments
    } == {("2", "1")}


def test_nothing_is_loaded_before_it_is_needed(tmp_path: Path) -> None:
    assert "mxnet" not in sys.modules
    assert library_environment(3)["OMP_NUM_THREADS"] == "3"
    with planning("mxnet/sync/parameter_server", tmp_path) as processes:
        job = processes[0].job
    assert isinstance(job, WorkerJob)
    with pytest.raises(UserError, match="role"):
        ADAPTER.coordinator(setup(), job, examples())
    assert "mxnet" not in sys.modules
