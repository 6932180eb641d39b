"""Programs of MXNet processes, run in the environment of MXNet.

``python -m tests.frameworks.mxnet_programs facts``: a single process. With ``train`` or ``fail``:
one of several, which reads its job from its working folder; with ``fail`` the second worker fails.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil
from numpy.typing import NDArray

from horizont.config.base import parse_config
from horizont.config.jobs import WorkerJob
from horizont.config.run import StepCounts
from horizont.config.workload import OptimizerConfig
from horizont.errors import UserError
from horizont.frameworks.base import InMemoryImages, Normalisation, Trainer, TrainingSetup
from horizont.frameworks.mxnet.adapter import ADAPTER
from horizont.monitoring.process_control import exit_with_parent
from horizont.monitoring.progress import StepCounter
from horizont.networks.catalogue import build_network
from horizont.networks.layers import Flatten
from horizont.networks.weights import initial_weights
from horizont.training.loop import TrainingLoop

Arrays = dict[str, NDArray[Any]]

RATE = 0.1
SIZES = (8, 8, 5)  # the last batch is smaller
STEPS = 4
GLOBAL_BATCH = 12


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


if __name__ == "__main__":
    exit_with_parent()
    if sys.argv[1] == "facts":
        np.savez("arrays.npz", **single_process_facts())
    else:
        values = json.loads(Path("job.json").read_text())
        run_process(parse_config(WorkerJob, values, "job"), failing=sys.argv[1] == "fail")
