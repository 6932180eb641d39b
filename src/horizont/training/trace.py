"""A process of the comparator: trains for a few steps and records every tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.config.jobs import TraceJob, TraceRun
from horizont.data.prepared import ImageData, TextData, load
from horizont.errors import UserError
from horizont.frameworks import load_adapter
from horizont.frameworks.base import FrameworkAdapter, InMemoryImages, Trainer, TrainingSetup
from horizont.records.files import write_arrays
from horizont.training.evaluation import cross_entropies
from horizont.training.mutations import MUTATIONS_BY_NAME, NO_MUTATION
from horizont.training.trace_setup import (
    batch_permutation,
    draw_dropout_masks,
    evaluated_setup,
    example_indices,
    traced_examples,
    traced_setup,
)

Arrays = dict[str, NDArray[Any]]

#: Images that are evaluated, in each of several contrasts.
EVALUATED_IMAGES = 8
EVALUATED_WINDOWS = 2

#: Bytes of images that reach every layer at another scale.
CONTRASTS: dict[str, Callable[[NDArray[np.uint8]], NDArray[np.uint8]]] = {
    "original": lambda images: images,
    "dim": lambda images: images >> np.uint8(4),
    "saturated": lambda images: (images >> np.uint8(7)) * np.uint8(255),
}


def record_trace(job: TraceJob) -> None:
    """Train once for each run of the job, and write all tensors of each to a file.

    The arrays are named ``<quantity>/<step>/<tensor>``: ``initial/0/conv1.weight``,
    ``inputs/0/moments`` (mean and deviation of each image as the first layer receives it),
    ``logits/0/logits``, ``loss/0/loss``, ``gradient/0/conv1.weight``, ``evaluation/0/original``
    (logits in evaluation mode), ``update/5/conv1.weight`` (weights after five steps minus initial
    weights), ``step_loss/5/loss``, ``statistics/5/norm1.mean``, ``state/5/lstm1.cell``,
    ``optimizer/5/conv1.weight.velocity``, ``batch/42/conv1.weight`` (the update of a step with
    42 examples) and ``rate/1/conv1.weight`` (that of a step at the first of the other learning
    rates). ``expected/0/moments`` and ``expected/0/loss`` are computed by NumPy from the
    prepared data. An unknown mutation is refused.
    """
    for trace_run in job.runs:
        if trace_run.mutation not in (None, *MUTATIONS_BY_NAME):
            raise UserError("mutation", trace_run.mutation, sorted(MUTATIONS_BY_NAME))
    adapter = load_adapter(job.framework)
    adapter.configure(job.threads, job.device)
    adapter.share_compiled_programs(job.folder / "programs")
    data = load(job.data_folder)
    for trace_run in job.runs:
        arrays = _Recorder(job, trace_run, adapter, data).record()
        write_arrays(job.folder / trace_run.file_name, arrays)


class _Recorder:
    """The recording of one run."""

    def __init__(
        self,
        job: TraceJob,
        trace_run: TraceRun,
        adapter: FrameworkAdapter,
        data: ImageData | TextData,
    ) -> None:
        self.job, self.trace_run, self.data = job, trace_run, data
        self.is_permuted = trace_run.perturbation == "batch_order"
        self.examples = traced_examples(job, trace_run, data)
        mutation = MUTATIONS_BY_NAME.get(trace_run.mutation or "", NO_MUTATION)
        setup = traced_setup(job, trace_run, data)
        self.setup, self.mutated_examples = mutation.setup(setup, self.examples)
        is_profiled = trace_run.path == "profiled"
        self.build: Callable[[TrainingSetup], Any] = (
            adapter.profiling_trainer if is_profiled else adapter.trainer
        )
        if mutation.trainer is not None:
            self.build = partial(mutation.trainer, self.build, trace_run=trace_run)

    def record(self) -> Arrays:
        """Train, and return all tensors."""
        trainer = self.build(self.setup)
        if self.trace_run.path == "timed_batches":
            return self._record_timed_batches(trainer)
        arrays: Arrays = {}
        if not self.trace_run.is_short or self.is_permuted:
            arrays |= self._record_first_batch(trainer)
        if not self.trace_run.is_short:
            arrays |= self._record_evaluation(trainer)
        arrays |= self._record_trajectory(trainer)
        if self.is_permuted:  # recorded in the order of the other runs
            by_example = {name for name in arrays if name.startswith(("logits/", "state/"))}
            arrays |= {name: self._in_order(arrays[name]) for name in by_example}
        trainer.close()
        return arrays

    def _in_order(self, rows: NDArray[Any]) -> NDArray[Any]:
        ordered = np.empty_like(rows)
        ordered[batch_permutation(len(rows), self.job.seed)] = rows
        return ordered

    def _set_masks(self, trainer: Trainer, step: int, examples: int) -> None:
        network, seed = self.setup.network, self.job.seed
        masks = draw_dropout_masks(network, seed, step, examples, is_permuted=self.is_permuted)
        trainer.set_dropout_masks(masks)

    def _record_first_batch(self, trainer: Trainer) -> Arrays:
        """Return initial weights, and inputs, logits, loss and gradients of the first batch."""
        arrays = _under("initial/0", trainer.weights())
        examples = self.mutated_examples
        self._set_masks(trainer, 1, len(examples.order[0]))
        batch = next(trainer.batches(replace(examples, order=examples.order[:1])))
        computed = trainer.forward_backward(batch)
        if isinstance(self.data, ImageData) and not self.is_permuted:
            arrays["inputs/0/moments"] = _moments(trainer.batch_inputs(batch))
            arrays["expected/0/moments"] = self._expected_moments(self.data)
        arrays["logits/0/logits"] = computed.logits
        arrays["loss/0/loss"] = np.array(computed.loss)
        if not self.is_permuted:
            arrays["expected/0/loss"] = np.array(self._expected_loss(computed.logits))
        return arrays | _under("gradient/0", computed.gradients)

    def _expected_moments(self, data: ImageData) -> NDArray[Any]:
        """Normalise the bytes of the first batch by the description of the data set alone."""
        images = np.asarray(data.train_images[self._first_indices()], np.float64) / 255
        description = data.description
        mean, std = (np.array(value) for value in (description.mean, description.std))
        return _moments((images - mean[:, None, None]) / std[:, None, None])

    def _expected_loss(self, logits: NDArray[Any]) -> float:
        """Compute the loss of the first batch from its logits and the prepared labels or words."""
        first = self._first_indices()
        targets: NDArray[Any]
        if isinstance(self.data, ImageData):
            targets = np.asarray(self.data.train_labels)[first]
        else:
            steps = np.arange(1, self.job.workload.time_steps + 1)
            targets = np.asarray(self.data.train_tokens)[first[:, None] + steps]
        losses = cross_entropies(logits.astype(np.float64), targets)
        return float(losses.reshape(len(losses), -1).sum(axis=1).mean())

    def _first_indices(self) -> NDArray[np.int64]:
        return example_indices(self.job, self.trace_run, self.data)[0]

    def _record_evaluation(self, trainer: Trainer) -> Arrays:
        """Return logits in evaluation mode, with initial weights and given running statistics."""
        evaluated = evaluated_setup(self.setup)
        if evaluated.network != self.setup.network:  # with the framework's own dropout
            trainer = self.build(evaluated)
        if isinstance(self.data, ImageData):
            images = np.asarray(self.data.test_images[:EVALUATED_IMAGES])
            return {
                f"evaluation/0/{name}": trainer.predict(change(images))
                for name, change in CONTRASTS.items()
            }
        assert not isinstance(self.examples, InMemoryImages)
        trainer.reset_recurrent_state()
        arrays = {}
        for number, starts in enumerate(self.examples.order[:EVALUATED_WINDOWS], start=1):
            inputs, _ = self.examples.inputs_and_targets(starts)
            arrays[f"evaluation/0/window{number}"] = trainer.predict(inputs)
        trainer.reset_recurrent_state()
        return arrays

    def _run_steps(self, trainer: Trainer) -> Iterator[Any]:
        """Run the steps of the path, and yield the loss of each."""
        examples = self.mutated_examples
        is_instrumented = self.trace_run.path == "instrumented"
        if is_instrumented:
            trainer.compile_instrumented_step(len(examples.order[0]))
        for step, batch in enumerate(trainer.batches(examples), start=1):
            self._set_masks(trainer, step, len(examples.order[step - 1]))
            if is_instrumented:
                yield trainer.instrumented_step(batch, lambda phase, end_s=None: None)
                continue
            loss = trainer.step(batch)
            trainer.synchronize(loss)
            yield loss

    def _record_trajectory(self, trainer: Trainer) -> Arrays:
        """Train, and return updates, losses, statistics and states after some steps."""
        initial = trainer.weights()
        at_steps = self.job.steps_of(self.trace_run)
        arrays: Arrays = {}
        for step, loss in enumerate(self._run_steps(trainer), start=1):
            if step in at_steps:
                arrays |= _under(f"update/{step}", _updates(trainer, initial))
                arrays[f"step_loss/{step}/loss"] = np.array(trainer.loss_value(loss))
                arrays |= _under(f"statistics/{step}", trainer.running_statistics())
                arrays |= _under(f"state/{step}", trainer.recurrent_state())
                arrays |= _under(f"optimizer/{step}", trainer.optimizer_state())
        return arrays

    def _record_timed_batches(self, trainer: Trainer) -> Arrays:
        """Run a step with each batch size and each other learning rate of the study.

        Returns losses and updates.
        """
        arrays: Arrays = {}
        for number, size in enumerate(self.job.timed_batches):
            trainer.reset_recurrent_state()
            arrays |= self._record_single_step(trainer, number, f"batch/{size}")
        trainer.close()
        for number, rate in enumerate(self.job.learning_rates, start=1):
            optimizer = self.setup.optimizer.model_copy(update={"learning_rate": rate})
            trainer = self.build(replace(self.setup, optimizer=optimizer))
            arrays |= self._record_single_step(trainer, 0, f"rate/{number}")
            trainer.close()
        return arrays

    def _record_single_step(self, trainer: Trainer, number: int, prefix: str) -> Arrays:
        """Run a step with one of the timed batches, and return its loss and updates."""
        before = trainer.weights()
        order = self.mutated_examples.order[number : number + 1]
        self._set_masks(trainer, number + 1, len(order[0]))
        batch = next(trainer.batches(replace(self.mutated_examples, order=order)))
        loss = trainer.step(batch)
        trainer.synchronize(loss)
        arrays = {"loss": np.array(trainer.loss_value(loss)), **_updates(trainer, before)}
        return _under(prefix, arrays)


def _under(prefix: str, values: Arrays) -> Arrays:
    return {f"{prefix}/{name}": value for name, value in values.items()}


def _updates(trainer: Trainer, before: Arrays) -> Arrays:
    return {name: value - before[name] for name, value in trainer.weights().items()}


def _moments(images: NDArray[Any]) -> NDArray[Any]:
    """Return mean and deviation of each image, whatever the order of its axes."""
    pixels = images.reshape(len(images), -1).astype(np.float64)
    return np.stack([pixels.mean(axis=1), pixels.std(axis=1)], axis=1)
