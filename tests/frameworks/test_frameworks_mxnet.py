"""MXNet behind the protocol, in processes of its own: this file is also the program they run."""

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
from horizont.launchers.process import ProcessGroup, terminating, wait_for
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


def recipe(dtype: Literal["float32", "float64"] = "float64", **changes: Any) -> TrainingSetup:
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


def flattened_wrongly(right: TrainingSetup) -> TrainingSetup:
    layers = tuple(
        dataclasses.replace(layer, order="hwc") if isinstance(layer, Flatten) else layer
        for layer in right.network.layers
    )
    return dataclasses.replace(right, network=dataclasses.replace(right.network, layers=layers))


def examples(sizes: tuple[int, ...] = SIZES) -> InMemoryImages:
    random = np.random.default_rng(5)
    images = random.integers(0, 256, (64, 3, 32, 32), dtype=np.uint8)
    labels = random.integers(0, 10, 64)
    return InMemoryImages(images, labels, [random.integers(0, 64, size) for size in sizes])


# --- what the processes do -----------------------------------------------------------------


def tell_facts() -> Arrays:
    """Train alone in both precisions and tell what happened."""
    ADAPTER.configure(threads=1)
    facts: Arrays = {}
    precisions: tuple[Literal["float32", "float64"], ...] = ("float32", "float64")
    for dtype in precisions:
        told = trained(recipe(dtype)) | probed(recipe(dtype))
        facts |= {f"{dtype}/{name}": value for name, value in told.items()}
    wrong = ADAPTER.trainer(flattened_wrongly(recipe()))
    facts["hwc/logits"] = wrong.predict(examples().images)
    summed = ADAPTER.trainer(recipe(loss_reduction="sum"))
    probe = summed.forward_backward(next(summed.batches(examples())))
    facts["sum/loss"] = np.array(probe.loss)
    facts["sum/gradient"] = probe.gradients["fc3.bias"]
    facts |= named("alone", trained_together(ADAPTER.trainer(recipe("float32")), 0, 1))
    facts |= timing(ADAPTER.trainer(recipe("float32")))
    facts |= named("looped", looped(ADAPTER.trainer(recipe())))
    facts |= {"held_back_s": readings(holding=True), "free_s": readings(holding=False)}
    facts["refused/configure"] = np.array(refuses(RuntimeError, lambda: ADAPTER.configure(1)))
    return facts


def refuses(error: type[Exception], call: Callable[[], object]) -> bool:
    try:
        call()
    except error:
        return True
    return False


def named(group: str, arrays: Arrays) -> Arrays:
    return {f"{group}/{name}": value for name, value in arrays.items()}


def noting(phases: list[str]) -> Callable[..., None]:
    """Make a clock that only notes which phases are booked."""
    return lambda phase, spent_s: phases.append(phase)


def trained(given: TrainingSetup) -> Arrays:
    """Make the same steps without and with marks."""
    timed, instrumented = ADAPTER.trainer(given), ADAPTER.trainer(given)
    facts = named("initial", timed.weights())
    losses = []
    marks: list[str] = []
    for step, batch in enumerate(timed.batches(examples())):
        losses.append(timed.step(batch))
        if step < len(SIZES) - 1:
            facts |= named(f"after{step + 1}", timed.weights())
    for batch in instrumented.batches(examples()):
        instrumented.synchronize(instrumented.instrumented_step(batch, noting(marks)))
    timed.synchronize(losses[-1])
    facts["losses"] = np.array([timed.loss_value(loss) for loss in losses])
    facts["marks"] = np.array(marks)
    facts |= named("timed", timed.weights())
    facts |= named("instrumented", instrumented.weights())
    timed.close()
    return facts


def probed(given: TrainingSetup) -> Arrays:
    """Look at the first batch, without and with learning."""
    trainer = ADAPTER.trainer(given)
    probe = trainer.forward_backward(next(trainer.batches(examples())))
    facts = named("gradient", probe.gradients) | named("unlearned", trainer.weights())
    facts["logits"] = probe.logits
    facts["loss"] = np.array(probe.loss)
    facts["predicted"] = trainer.predict(examples().images)
    return facts


def timing(trainer: Any) -> Arrays:
    """Tell how long it takes to settle one of two queued steps, both, and what is left then.

    In seconds of this process on processors, which a busy machine does not stretch.
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
    begun = time.process_time()
    steps = [trainer.step(second), trainer.step(third)]
    times = []
    for wait in (partial(trainer.synchronize, steps[0]), partial(trainer.synchronize, steps[1])):
        wait()
        times.append(time.process_time() - begun)
    mxnet.nd.waitall()
    times.append(time.process_time() - begun)
    return {"settled_s": np.array(times)}


def looped(trainer: Trainer) -> Arrays:
    """Make timed steps as a worker does, after one step to warm up and a bare one."""
    steps = StepCounts(warmup=1, timed=1, instrumented=4)
    given = trainer.batches(examples((12,) * steps.total))
    with StepCounter(Path("progress"), steps.total) as progress:
        loop = TrainingLoop(trainer, steps, 0, progress)
        loop.run(given, lambda: None)
    table = loop.log.table()
    return {name: np.array(table[name].to_pylist()) for name in table.column_names}


def readings(holding: bool) -> NDArray[Any]:
    """Queue a long way to a result, and something short that may have to wait for it.

    Returns
    -------
    ndarray
        (2,) when the result and the short thing were there, in seconds.
    """
    import mxnet

    from horizont.frameworks.mxnet.train import EngineTimestamps

    large, gate = mxnet.nd.ones((2000, 2000)), mxnet.nd.ones(1)
    mxnet.nd.waitall()
    way, short = EngineTimestamps(), EngineTimestamps()
    result = mxnet.nd.dot(mxnet.nd.dot(large, large), large)
    way.end_phase("forward", after=[result], blocking=[gate] if holding else [])
    short.end_phase("forward", after=[gate * 2])
    return np.array([end_s for step in (way, short) for _, end_s in step.phase_ends()])


def trained_together(trainer: Trainer, rank: int, workers: int, failing: bool = False) -> Arrays:
    """Make steps on this worker's slices of the global batches, half of them marked."""
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
            trainer.step(batch) if even else trainer.instrumented_step(batch, noting(marks))
        )
    trainer.synchronize(losses[-1])
    arrays |= named("final", trainer.weights())
    arrays["losses"] = np.array([trainer.loss_value(loss) for loss in losses])
    arrays["marks"] = np.array(marks)
    trainer.close()
    return arrays


def take_part(job: WorkerJob, failing: bool) -> None:
    """Do the work of one process of a distributed run; the second worker may fail at it."""
    ADAPTER.configure(job.run.topology.threads)
    if job.role != "worker":
        ADAPTER.serve(job)
        return
    assert refuses(UserError, lambda: ADAPTER.worker(recipe("float64"), job))
    trainer = ADAPTER.worker(recipe("float32"), job)
    workers = job.run.topology.workers
    # Now that all have met, and before any has left: who listens where?
    listeners = np.array(sorted(set(listening(psutil.Process(os.getppid()).children()))))
    told = trained_together(trainer, job.rank, workers, failing and job.rank == 1)
    np.savez("told.npz", listeners=listeners, **told)


def listening(processes: list[psutil.Process]) -> Iterator[str]:
    """Tell the addresses on which processes listen."""
    for process in processes:
        for connection in process.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                yield connection.laddr.ip


# --- the tests ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Arrays:
    """What a process told that trained alone."""
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
    return dict(np.load(folder / "told.npz"))


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


def numbers(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Normalise bytes, as the definition of the normalisation reads."""
    channel = (1, 3, 1, 1)
    mean, std = recipe().normalisation.mean, recipe().normalisation.std
    return (images / 255.0 - mean.reshape(channel)) / std.reshape(channel)


def convolved(maps: NDArray[Any], kernel: NDArray[Any], bias: NDArray[Any]) -> NDArray[Any]:
    windows = np.lib.stride_tricks.sliding_window_view(maps, kernel.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, kernel) + bias[:, None, None]


def pooled(maps: NDArray[Any]) -> NDArray[Any]:
    examples, channels, height, width = maps.shape
    return maps.reshape(examples, channels, height // 2, 2, width // 2, 2).max(axis=(3, 5))


def logits_of(images: NDArray[np.uint8], weights: Arrays) -> NDArray[Any]:
    """Do LeNet-5's forward pass in NumPy."""
    values = numbers(images)
    for layer in ("conv1", "conv2"):
        values = convolved(values, weights[f"{layer}.weight"], weights[f"{layer}.bias"])
        values = pooled(np.tanh(values))
    values = values.reshape(len(values), -1)
    for layer in ("fc1", "fc2", "fc3"):
        values = values @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]
        values = values if layer == "fc3" else np.tanh(values)
    return values


def loss_of(step: int, weights: Arrays) -> float:
    """Tell the mean cross entropy of a step's batch."""
    chosen = examples().order[step]
    logits = logits_of(examples().images[chosen], weights)
    highest = logits.max(axis=1)
    norms = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
    return float(np.mean(norms - logits[np.arange(len(chosen)), examples().labels[chosen]]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_weights_go_in_and_come_out_unchanged(facts: Arrays, dtype: str) -> None:
    given = {name: value.astype(dtype) for name, value in recipe().weights.items()}
    told = group(facts, f"{dtype}/initial")
    assert list(told) == list(given)
    assert same(told, given)
    assert all(value.dtype == dtype for value in told.values())
    assert same(group(facts, f"{dtype}/unlearned"), given)  # a probe teaches nothing


def test_the_forward_pass_is_that_of_the_description(facts: Arrays) -> None:
    data = examples()
    first = logits_of(data.images[data.order[0]], recipe().weights)
    np.testing.assert_allclose(facts["float64/logits"], first, rtol=0, atol=1e-13)
    every = logits_of(data.images, recipe().weights)
    np.testing.assert_allclose(facts["float64/predicted"], every, rtol=0, atol=1e-13)
    np.testing.assert_allclose(facts["float32/predicted"], every, rtol=0, atol=1e-5)
    assert facts["float64/loss"] == pytest.approx(loss_of(0, recipe().weights), rel=1e-14)


def test_every_loss_follows_from_the_weights_before_it(facts: Arrays) -> None:
    # Order, labels and the smaller last batch: a wrong one gives another loss.
    before = [recipe().weights, *(group(facts, f"float64/after{step}") for step in (1, 2))]
    expected = [loss_of(step, weights) for step, weights in enumerate(before)]
    np.testing.assert_allclose(facts["float64/losses"], expected, rtol=1e-13)


def test_the_gradients_are_slopes_of_the_loss(facts: Arrays) -> None:
    reach = 1e-5  # truncation of the order of its square, rounding of 1e-16 / reach
    random = np.random.default_rng(1)
    for name, gradient in group(facts, "float64/gradient").items():
        way = random.normal(size=gradient.shape)
        way /= np.linalg.norm(way)
        ahead, behind = (
            loss_of(0, {**recipe().weights, name: recipe().weights[name] + sign * reach * way})
            for sign in (1, -1)
        )
        assert (gradient * way).sum() == pytest.approx((ahead - behind) / (2 * reach), abs=1e-9)


@pytest.mark.parametrize(("dtype", "unit"), [("float32", 2.0**-24), ("float64", 2.0**-53)])
def test_a_step_follows_the_gradient_exactly(facts: Arrays, dtype: str, unit: float) -> None:
    # In float64 the learning rate must not have passed through float32 on its way.
    before, after = group(facts, f"{dtype}/initial"), group(facts, f"{dtype}/after1")
    for name, gradient in group(facts, f"{dtype}/gradient").items():
        expected = before[name].astype("float64") - RATE * gradient.astype("float64")
        np.testing.assert_allclose(after[name], expected, rtol=4 * unit, atol=4 * unit * RATE)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_marked_steps_are_the_same_steps(facts: Arrays, dtype: str) -> None:
    assert same(group(facts, f"{dtype}/timed"), group(facts, f"{dtype}/instrumented"))
    assert not same(group(facts, f"{dtype}/timed"), group(facts, f"{dtype}/initial"))
    assert facts[f"{dtype}/marks"].tolist() == ["forward", "backward", "update"] * len(SIZES)


def test_a_settled_step_is_over_and_the_next_one_is_not(facts: Arrays) -> None:
    first_s, both_s, idle_s = facts["settled_s"]
    assert first_s < 0.85 * both_s  # half, but for what runs beside it
    assert idle_s - both_s < 0.1 * both_s  # the loss is there before the slow update


def test_a_phase_does_not_begin_before_the_one_before_it_has_ended(facts: Arrays) -> None:
    held_back, free = facts["held_back_s"], facts["free_s"]
    assert held_back[1] > held_back[0]
    assert free[1] < free[0]  # so the order above is no accident


def test_timed_steps_follow_one_another_and_are_their_phases(facts: Arrays) -> None:
    told = group(facts, "looped")
    timed = told["kind"] == "instrumented"
    start_s, step_s = told["start_s"][timed], told["step_s"][timed]
    np.testing.assert_allclose(start_s[1:], start_s[:-1] + step_s[:-1], rtol=0, atol=1e-9)
    phases = [told[f"{name}_s"][timed] for name in ("load", "forward", "backward", "update")]
    assert all((spent_s >= 0).all() for spent_s in phases)
    np.testing.assert_allclose(np.sum(phases, axis=0), step_s, rtol=0, atol=1e-9)
    assert np.isfinite(told["loss"]).all()
    assert told["examples"].tolist() == [12] * 6


def test_the_faults_for_the_comparator_show(facts: Arrays) -> None:
    assert np.abs(facts["hwc/logits"] - facts["float64/predicted"]).max() > 1e-2
    for quantity, mean in (("loss", "loss"), ("gradient", "gradient/fc3.bias")):
        expected = SIZES[0] * facts[f"float64/{mean}"]
        np.testing.assert_allclose(facts[f"sum/{quantity}"], expected, rtol=1e-13, atol=1e-14)


def test_threads_cannot_be_set_too_late(facts: Arrays) -> None:
    assert facts["refused/configure"]


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


def carried_out(system: str, folder: Path, word: str = "train") -> list[Arrays]:
    """Do a run to the end of all of its processes and hand back what the workers told."""
    groups: list[ProcessGroup] = []
    with planning(system, folder, word) as processes, terminating(groups):
        for process in processes:
            process.folder.mkdir(parents=True)
            groups.append(ProcessGroup(process, folder / f"{process.name}.log"))
        supervise(groups, DEADLINE_S, lambda: None)
        passive = [group for group in groups if group.process.returncode is None]
        assert len(wait_for(passive, timeout_s=10)) == len(passive), "a server did not end"
        assert all(group.reap() == 0 for group in passive)
        assert all(group.log.read_text() == "" for group in groups)
    workers = [group.plan for group in groups if not group.plan.is_service]
    told = [dict(np.load(worker.folder / "told.npz")) for worker in workers]
    assert all(arrays.pop("listeners").tolist() == ["127.0.0.1"] for arrays in told)
    return told


def test_synchronous_workers_train_as_one_process(facts: Arrays, tmp_path: Path) -> None:
    workers = carried_out("mxnet/sync/parameter_server", tmp_path)
    alone = group(facts, "alone/final")
    for told in workers:
        assert same(group(told, "initial"), in_float32(recipe().weights))
        assert told["marks"].tolist() == ["forward", "backward", "communication"] * 2
        for name, value in group(told, "final").items():
            # Two half sums against one sum: a few units of float32 of the gradient and of the
            # weight at each step, and an update is some hundred times smaller than its weight.
            update = alone[name] - recipe().weights[name]
            assert np.linalg.norm(value - alone[name]) < 1e-5 * np.linalg.norm(update), name
    # The mean of the workers' means.
    halves = np.mean([told["losses"] for told in workers], axis=0)
    np.testing.assert_allclose(halves, facts["alone/losses"], rtol=1e-6)


def test_asynchronous_workers_make_their_steps(tmp_path: Path) -> None:
    workers = carried_out("mxnet/async/parameter_server", tmp_path)
    for told in workers:
        assert same(group(told, "initial"), in_float32(recipe().weights))
        assert told["losses"].shape == (STEPS,)
        assert np.isfinite(told["losses"]).all()
        assert told["marks"].tolist() == ["forward", "backward", "communication"] * 2
        for name, value in group(told, "final").items():
            assert np.isfinite(value).all()
            assert not np.array_equal(value, recipe().weights[name])


def test_a_failing_worker_ends_with_its_reason(tmp_path: Path) -> None:
    # MXNet would have it wait for the others, and them for it, until the deadline.
    with pytest.raises(RunFailed, match=r"worker-1 ended .* a setting: 'wrong'"):
        carried_out("mxnet/sync/parameter_server", tmp_path, "fail")


def test_each_role_is_told_where_it_is(tmp_path: Path) -> None:
    with planning("mxnet/sync/parameter_server", tmp_path) as processes:
        variables = [role_environment(p.job) for p in processes if isinstance(p.job, WorkerJob)]
    assert [told["DMLC_ROLE"] for told in variables] == ["scheduler", "server", "worker", "worker"]
    assert len({told["PORT"] for told in variables}) == 4
    assert {told["DMLC_NODE_HOST"] for told in variables} == {"127.0.0.1"}
    assert {told["DMLC_PS_ROOT_PORT"] for told in variables} == {variables[0]["PORT"]}
    assert {(told["DMLC_NUM_WORKER"], told["DMLC_NUM_SERVER"]) for told in variables} == {
        ("2", "1")
    }


def test_nothing_is_loaded_before_it_is_needed(tmp_path: Path) -> None:
    assert "mxnet" not in sys.modules
    assert library_environment(3)["OMP_NUM_THREADS"] == "3"
    with planning("mxnet/sync/parameter_server", tmp_path) as processes:
        job = processes[0].job
    assert isinstance(job, WorkerJob)
    with pytest.raises(UserError, match="role"):
        ADAPTER.coordinator(recipe(), job, examples())
    assert "mxnet" not in sys.modules


if __name__ == "__main__":
    exit_with_parent()
    if sys.argv[1] == "facts":
        np.savez("told.npz", **tell_facts())
    else:
        told = json.loads(Path("job.json").read_text())
        take_part(parse_config(WorkerJob, told, "job"), failing=sys.argv[1] == "fail")
