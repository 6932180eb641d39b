"""The adapter of MXNet in processes of its own: this file is also the program that they run."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from horizont.config.base import parse_config
from horizont.config.jobs import WorkerJob
from horizont.config.run import Run, StepCounts
from horizont.config.system import installed_version, parse_system
from horizont.config.workload import OptimizerConfig
from horizont.errors import UserError
from horizont.frameworks.base import InMemoryImages, Normalisation, Trainer, TrainingSetup
from horizont.frameworks.mxnet.adapter import ADAPTER, library_environment, role_environment
from horizont.launchers.base import open_cluster
from horizont.launchers.plan import ProcessPlan, plan_run, role_assignment
from horizont.launchers.process import ProcessGroup, terminating, wait_for_exit
from horizont.launchers.supervisor import RunFailed, supervise
from horizont.monitoring.process_control import exit_with_parent
from horizont.monitoring.progress import StepCounter
from horizont.networks.catalogue import build_network
from horizont.networks.layers import Flatten
from horizont.networks.weights import initial_weights
from horizont.training.loop import TrainingLoop

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(installed_version("mxnet") is None, reason="mxnet is not installed"),
]

Arrays = dict[str, NDArray[Any]]

RATE = 0.1
SIZES = (8, 8, 5)  # the last batch is smaller
STEPS = 4
GLOBAL_BATCH = 12
DEADLINE_S = 240


def setup(dtype: Literal["float32", "float64"] = "float64", **changes: Any) -> TrainingSetup:
    network = build_network("lenet5", (3, 32, 32), 10)
    return dataclasses.replace(
        TrainingSetup(
            network=network,
            weights=initial_weights(network, seed=3),
            optimizer=OptimizerConfig(learning_rate=RATE),
            normalisation=Normalisation(np.array([0.5, 0.4, 0.3]), np.array([0.2, 0.25, 0.3])),
        ),
        dtype=dtype,
        **changes,
    )


def with_wrong_flatten(correct: TrainingSetup) -> TrainingSetup:
    layers = tuple(
        dataclasses.replace(layer, order="hwc") if isinstance(layer, Flatten) else layer
        for layer in correct.network.layers
    )
    return dataclasses.replace(correct, network=dataclasses.replace(correct.network, layers=layers))


def examples(sizes: tuple[int, ...] = SIZES) -> InMemoryImages:
    random = np.random.default_rng(5)
    images = random.integers(0, 256, (64, 3, 32, 32), dtype=np.uint8)
    labels = random.integers(0, 10, 64)
    return InMemoryImages(images, labels, [random.integers(0, 64, size) for size in sizes])


# --- the programs of the processes ---------------------------------------------------------


def single_process_facts() -> Arrays:
    """Train in a single process in both precisions and return the arrays."""
    ADAPTER.configure(threads=1)
    facts: Arrays = {}
    precisions: tuple[Literal["float32", "float64"], ...] = ("float32", "float64")
    for dtype in precisions:
        arrays = trained(setup(dtype)) | first_batch(setup(dtype))
        facts |= named(dtype, arrays)
    wrong = ADAPTER.trainer(with_wrong_flatten(setup()))
    facts["hwc/logits"] = wrong.predict(examples().images)
    summed = ADAPTER.trainer(setup(loss_reduction="sum"))
    result = summed.forward_backward(next(summed.batches(examples())))
    facts["sum/loss"] = np.array(result.loss)
    facts["sum/gradient"] = result.gradients["fc3.bias"]
    facts |= named("alone", train_share(ADAPTER.trainer(setup("float32")), 0, 1))
    facts |= timing(ADAPTER.trainer(setup("float32")))
    facts |= named("looped", looped(ADAPTER.trainer(setup())))
    facts |= {"blocked_s": readings(blocking=True), "free_s": readings(blocking=False)}
    facts["rejected/configure"] = np.array(rejects(RuntimeError, lambda: ADAPTER.configure(1)))
    return facts


def rejects(error: type[Exception], call: Callable[[], object]) -> bool:
    try:
        call()
    except error:
        return True
    return False


def named(group: str, arrays: Arrays) -> Arrays:
    return {f"{group}/{name}": value for name, value in arrays.items()}


def recording(phases: list[str]) -> Callable[..., None]:
    """Return a mark that records the names of the phases."""
    return lambda phase, spent_s: phases.append(phase)


def trained(given: TrainingSetup) -> Arrays:
    """Run the same steps without and with marks."""
    timed, instrumented = ADAPTER.trainer(given), ADAPTER.trainer(given)
    facts = named("initial", timed.weights())
    losses = []
    marks: list[str] = []
    for step, batch in enumerate(timed.batches(examples())):
        losses.append(timed.step(batch))
        if step < len(SIZES) - 1:
            facts |= named(f"after{step + 1}", timed.weights())
    for batch in instrumented.batches(examples()):
        instrumented.synchronize(instrumented.instrumented_step(batch, recording(marks)))
    timed.synchronize(losses[-1])
    facts["losses"] = np.array([timed.loss_value(loss) for loss in losses])
    facts["marks"] = np.array(marks)
    facts |= named("timed", timed.weights())
    facts |= named("instrumented", instrumented.weights())
    timed.close()
    return facts


def first_batch(given: TrainingSetup) -> Arrays:
    """Return forward_backward and predictions of the first batch."""
    trainer = ADAPTER.trainer(given)
    result = trainer.forward_backward(next(trainer.batches(examples())))
    facts = named("gradient", result.gradients) | named("not_updated", trainer.weights())
    facts["logits"] = result.logits
    facts["loss"] = np.array(result.loss)
    facts["predicted"] = trainer.predict(examples().images)
    return facts


def timing(trainer: Any) -> Arrays:
    """Return the times to synchronize one of two queued steps, both, and everything queued.

    In CPU seconds of this process, which do not depend on the load of the machine.
    """
    import mxnet

    factor = mxnet.nd.ones((1200, 1200))
    update = trainer.update

    def update_slowly() -> None:
        update()
        late = 0 * mxnet.nd.dot(factor * trainer.weight_arrays[-1][0:1], factor)[0, 0]
        for weight in trainer.weight_arrays:
            weight[:] += late

    trainer.update = update_slowly
    first, second, third = trainer.batches(examples((50, 50, 50)))
    trainer.synchronize(trainer.step(first))
    start_s = time.process_time()
    steps = [trainer.step(second), trainer.step(third)]
    times = []
    for wait in (partial(trainer.synchronize, steps[0]), partial(trainer.synchronize, steps[1])):
        wait()
        times.append(time.process_time() - start_s)
    mxnet.nd.waitall()
    times.append(time.process_time() - start_s)
    return {"synchronized_s": np.array(times)}


def looped(trainer: Trainer) -> Arrays:
    """Run instrumented steps as a worker does, after one warm-up step and one timed step."""
    steps = StepCounts(warmup=1, timed=1, instrumented=4)
    given = trainer.batches(examples((12,) * steps.total))
    with StepCounter(Path("progress"), steps.total) as progress:
        loop = TrainingLoop(trainer, steps, 0, progress)
        loop.run(given, lambda: None)
    table = loop.log.table()
    return {name: np.array(table[name].to_pylist()) for name in table.column_names}


def readings(blocking: bool) -> NDArray[Any]:
    """Queue a long operation, and a short one that is blocked by its timestamp or not.

    Returns
    -------
    ndarray
        (2,) the ends of the long and the short operation, in seconds.
    """
    import mxnet

    from horizont.frameworks.mxnet.train import EngineTimestamps

    large, gate = mxnet.nd.ones((2000, 2000)), mxnet.nd.ones(1)
    mxnet.nd.waitall()
    long, short = EngineTimestamps(), EngineTimestamps()
    result = mxnet.nd.dot(mxnet.nd.dot(large, large), large)
    long.end_phase("forward", after=[result], blocking=[gate] if blocking else [])
    short.end_phase("forward", after=[gate * 2])
    return np.array([end_s for step in (long, short) for _, end_s in step.phase_ends()])


def train_share(trainer: Trainer, rank: int, workers: int, failing: bool = False) -> Arrays:
    """Train on this worker's slices of the global batches; every other step is instrumented."""
    whole = examples((GLOBAL_BATCH,) * STEPS)
    own = [np.array_split(indices, workers)[rank] for indices in whole.order]
    arrays = named("initial", trainer.weights())
    marks: list[str] = []
    losses = []
    for step, batch in enumerate(trainer.batches(dataclasses.replace(whole, order=own))):
        if failing and step == 2:
            raise UserError("a setting", "wrong", "right")
        even = step % 2 == 0
        losses.append(
            trainer.step(batch) if even else trainer.instrumented_step(batch, recording(marks))
        )
    trainer.synchronize(losses[-1])
    arrays |= named("final", trainer.weights())
    arrays["losses"] = np.array([trainer.loss_value(loss) for loss in losses])
    arrays["marks"] = np.array(marks)
    trainer.close()
    return arrays


def run_process(job: WorkerJob, failing: bool) -> None:
    """Run one process of a distributed run; the second worker can be made to fail."""
    ADAPTER.configure(job.run.topology.threads)
    if job.role != "worker":
        ADAPTER.serve(job)
        return
    assert rejects(UserError, lambda: ADAPTER.worker(setup("float64"), job))
    trainer = ADAPTER.worker(setup("float32"), job)
    workers = job.run.topology.workers
    # All processes are connected and none has left: collect the addresses they listen on.
    listeners = np.array(sorted(set(listening_addresses(psutil.Process(os.getppid()).children()))))
    arrays = train_share(trainer, job.rank, workers, failing and job.rank == 1)
    np.savez("arrays.npz", listeners=listeners, **arrays)


def listening_addresses(processes: list[psutil.Process]) -> Iterator[str]:
    """Yield the addresses on which processes listen."""
    for process in processes:
        for connection in process.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                yield connection.laddr.ip


# --- the tests ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Arrays:
    """Run the single-process program and return what it wrote."""
    folder = tmp_path_factory.mktemp("alone")
    ended = subprocess.run(
        [sys.executable, __file__, "facts"],
        cwd=folder,
        env={**os.environ, "HORIZONT_PARENT_PID": str(os.getpid())},
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
    argv = (sys.executable, __file__, word)
    with open_cluster(run.topology, folder) as hosts:
        plan = plan_run(
            run, folder, folder, hosts.endpoints([host for _, _, host in role_assignment(run)])
        )
        yield [dataclasses.replace(process, argv=argv) for process in plan.processes]


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


if __name__ == "__main__":
    exit_with_parent()
    if sys.argv[1] == "facts":
        np.savez("arrays.npz", **single_process_facts())
    else:
        values = json.loads(Path("job.json").read_text())
        run_process(parse_config(WorkerJob, values, "job"), failing=sys.argv[1] == "fail")
