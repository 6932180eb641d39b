"""Reading the clock inside MXNet's engine.

A reading is queued like any operation and runs when its turn has come, so that the program can
queue what follows instead of waiting. The engine knows of no order but that of who reads and who
changes which array; an array that a reading claims to change holds back whatever needs it next.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np
import numpy.typing as npt

from horizont.frameworks.base import (
    ForwardBackward,
    ImagesOnDisk,
    InMemoryImages,
    PhaseEnds,
    PhaseMark,
    TextWindows,
    TrainingSetup,
    Weights,
)
from horizont.frameworks.mxnet import input
from horizont.frameworks.mxnet import input as pipeline
from horizont.frameworks.mxnet.model import (
    HYBRIDIZE_OPTIONS,
    build_net,
    named_parameters,
    read_gradients,
    read_weights,
    set_parameters,
    to_canonical,
)
from horizont.frameworks.mxnet.optimizer import (
    MAX_AGGREGATED_WEIGHTS,
    build_optimizer,
    canonical_state,
    clip_gradients,
    is_aggregated,
)
from horizont.networks.weights import statistic_shapes

#: By the number of the reading, until its step is told.
_readings_s: dict[int, float] = {}
_reading_ids = itertools.count(1)  # a null pointer is no number


def _record_reading(_: int | None, number: int) -> None:
    """Be called by a thread of the engine."""
    _readings_s[number] = monotonic()


_read_clock = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(_record_reading)


class _Context(ctypes.Structure):
    """The engine's word for a device."""

    _fields_ = (("type", ctypes.c_int), ("number", ctypes.c_int32))


_CPU_CONTEXT = _Context(mx.cpu().device_typeid, 0)
_NORMAL_PRIORITY = ctypes.c_int(0)
#: The engine puts operations of no priority together and runs them as one.
_UNBULKED = 1


class EngineTimestamps:
    """The phases of a step, each with its end as the engine comes to it."""

    def __init__(self) -> None:
        self._ends: list[tuple[str, int]] = []
        # Each reading changes it, so they are made in order, and the last can be waited for.
        self._sequence = mx.nd.zeros(1)

    def end_phase(
        self, phase: str, *, after: Sequence[Any] = (), blocking: Sequence[Any] = ()
    ) -> None:
        """Queue the end of a phase.

        Parameters
        ----------
        after
            Arrays that are there when it has ended.
        holding
            Arrays likewise; what reads or changes one of them next does not start before.
        """
        number = next(_reading_ids)
        changed = [*blocking, self._sequence]
        mx.base.check_call(
            mx.base._LIB.MXEnginePushSyncND(
                _read_clock,
                ctypes.c_void_p(number),
                None,
                ctypes.byref(_CPU_CONTEXT),
                _handles(after),
                len(after),
                _handles(changed),
                len(changed),
                ctypes.byref(_NORMAL_PRIORITY),
                _UNBULKED,
                b"read_clock",
            )
        )
        self._ends.append((phase, number))

    def phase_ends(self) -> list[tuple[str, float]]:
        """Wait, and tell the phases with their ends, in seconds of the monotonic clock."""
        self._sequence.wait_to_read()
        return [(phase, _readings_s.pop(number)) for phase, number in self._ends]


def _handles(arrays: Sequence[Any]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(array.handle for array in arrays))


class PendingLoss(NamedTuple):
    """A step that was queued.

    Attributes
    ----------
    losses
        The loss of each example. It is there after the forward pass already.
    receipts
        Arrays that are there as soon as the step has changed all weights.
    """

    losses: Any
    completion_markers: list[Any]


class LocalTrainer:
    """A network, its loss and its update rule."""

    def __init__(self, setup: TrainingSetup) -> None:
        mx.random.seed(setup.seed)
        self.setup = setup
        self.net = build_net(setup)
        self.loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        self.loss.hybridize(**HYBRIDIZE_OPTIONS[setup.variant])
        self.parameters = named_parameters(setup.weights, self.net)
        self.statistic_parameters = named_parameters(statistic_shapes(setup.network), self.net)
        self.weight_arrays = [parameter.data() for parameter in self.parameters.values()]
        self.gradients = [parameter.grad() for parameter in self.parameters.values()]
        self.states: list[Any] = []
        self.convert = pipeline.input_converter(setup)
        self.loss_gradients: dict[int, Any] = {}
        self._prepare_update()

    def _prepare_update(self) -> None:
        """Get ready to change the weights here, in this process."""
        rule = build_optimizer(self.setup)
        for name, parameter in self.parameters.items():  # Gluon asks its parameters, not the rule
            parameter.wd_mult = 1.0 if self.setup.weight_decay_of(name) else 0.0
        self.updater = mx.gluon.Trainer(list(self.parameters.values()), rule, kvstore=None)
        # A receipt for each queued operation.
        self.marked_weights = self.weight_arrays[
            :: MAX_AGGREGATED_WEIGHTS if is_aggregated(rule) else 1
        ]

    def batches(
        self, data: InMemoryImages | TextWindows | ImagesOnDisk
    ) -> Iterator[pipeline.Batch]:
        """Start the input pipeline."""
        if isinstance(data, ImagesOnDisk):
            return input.file_batches(data, self.convert)
        return pipeline.memory_batches(data, self.convert)

    def score(self, inputs: Any) -> Any:
        """Queue the scoring of a batch; a recurrent network goes on from the batch before."""
        shapes = self.setup.network.state_shapes().values()
        if not shapes:
            return self.net(inputs)
        if not self.states:
            self.states = [
                mx.nd.zeros((1, len(inputs), *shape), dtype=self.setup.dtype) for shape in shapes
            ]
        scores, *after = self.net(inputs, *self.states)
        self.states = [state.detach() for state in after]
        return scores

    def forward(self, batch: pipeline.Batch) -> Any:
        """Queue the forward pass and return the promised loss of each example."""
        inputs, labels = batch
        with mx.autograd.record():
            return self.loss(self.score(inputs), labels)

    def backward(self, losses: Any) -> None:
        """Queue the backward pass of the batch's loss.

        The mean over the batch is taken where the pass begins, in the precision of the
        network. Gluon's usual way, to let the optimizer divide, would do it in float32.
        """
        losses.backward(self._loss_gradient(len(losses)))
        for name, factor in self.setup.gradient_factors.items():
            gradient = self.parameters[name].grad()
            gradient *= factor

    def _loss_gradient(self, examples: int) -> Any:
        """Tell the derivative of the batch's loss by the loss of each of its examples."""
        if examples not in self.loss_gradients:
            share = 1.0 / examples if self.setup.loss_reduction == "mean" else 1.0
            share *= self.losses_per_example
            self.loss_gradients[examples] = mx.nd.array(
                np.full(examples, share), dtype=self.setup.dtype
            )
        return self.loss_gradients[examples]

    @property
    def losses_per_example(self) -> int:
        """How many losses Gluon averages for each example where their sum is meant."""
        return math.prod(self.setup.network.time_steps)

    def clip_gradients(self) -> None:
        """Queue the clipping of the gradients, if they are to be clipped."""
        if self.setup.optimizer.clip_norm:
            clip_gradients(self.gradients, self.setup.optimizer.clip_norm)

    def update(self) -> None:
        """Queue the change of the weights."""
        self.clip_gradients()
        self.updater.step(1)  # the gradient is the mean already

    def step(self, batch: pipeline.Batch) -> PendingLoss:
        """Queue one training step."""
        losses = self.forward(batch)
        self.backward(losses)
        self.update()
        return PendingLoss(losses, self._completion_markers())

    def instrumented_step(self, batch: pipeline.Batch, mark: PhaseMark) -> PendingLoss:
        """Make one training step, each phase after the end of the one before."""
        promise, ends = self.enqueue_instrumented_step(batch)
        for phase, end_s in ends():
            mark(phase, end_s)
        return promise

    def enqueue_instrumented_step(self, batch: pipeline.Batch) -> tuple[PendingLoss, PhaseEnds]:
        """Queue the same step; as in bare steps, the engine need not wait for what is next."""
        step = EngineTimestamps()
        losses = self.enqueue_forward(batch, step)
        self.backward(losses)
        step.end_phase("backward", blocking=self.gradients)  # the update waits for all of them
        self.update()
        step.end_phase("update", blocking=self.weight_arrays)
        return PendingLoss(losses, []), step.phase_ends

    def enqueue_forward(self, batch: pipeline.Batch, timestamps: EngineTimestamps) -> Any:
        """Queue the forward pass with its end, and return the promised losses.

        The backward pass could begin before the last losses are there; so it has to wait for
        what it begins with.
        """
        losses = self.forward(batch)
        timestamps.end_phase("forward", after=[losses], blocking=[self._loss_gradient(len(losses))])
        return losses

    def _completion_markers(self) -> list[Any]:
        """Queue the smallest operation that reads the changed weights.

        To wait for the weights themselves would be to wait for every step queued by then.
        """
        return [weight.size_array() for weight in self.marked_weights]

    def compile_instrumented_step(self, batch_size: int) -> None:
        """Do nothing: timed steps are made of what bare steps are made of."""

    def synchronize(self, loss: PendingLoss) -> None:
        """Wait until the step has changed the weights; later steps stay queued."""
        loss.losses.wait_to_read()
        for receipt in loss.completion_markers:
            receipt.wait_to_read()

    def loss_value(self, loss: PendingLoss) -> float:
        """Read the loss of a batch, as its reduction says."""
        losses = loss.losses.asnumpy()
        mean = self.setup.loss_reduction == "mean"
        return float(losses.mean() if mean else losses.sum()) * self.losses_per_example

    def predict(self, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Score images or texts."""
        return np.asarray(self.score(self.convert(inputs)).asnumpy())

    def forward_backward(self, batch: pipeline.Batch) -> ForwardBackward:
        """Tell logits, loss and gradients without learning."""
        inputs, labels = batch
        before, states = self.running_statistics(), self.states
        with mx.autograd.record():
            logits = self.score(inputs)
            losses = self.loss(logits, labels)
        self.backward(losses)
        loss = self.loss_value(PendingLoss(losses, []))
        set_parameters(self.statistic_parameters, before)
        self.states = states
        gradients = to_canonical(self.net, read_gradients(self.parameters))
        return ForwardBackward(logits.asnumpy(), loss, gradients)

    def weights(self) -> Weights:
        """Read the weights."""
        return to_canonical(self.net, read_weights(self.parameters))

    def running_statistics(self) -> Weights:
        """Read the tracked statistics."""
        return read_weights(self.statistic_parameters)

    def optimizer_state(self) -> Weights:
        """Read what the optimizer keeps; one that serves elsewhere is not seen."""
        settings = self.setup.optimizer
        states = self.updater._updaters[0].states if settings.slots else {}
        return {
            f"{name}.{slot}": kept
            for place, name in enumerate(self.parameters)
            if place in states
            for slot, kept in zip(
                settings.slots, canonical_state(settings, states[place]), strict=True
            )
        }

    def recurrent_state(self) -> Weights:
        """Read the state of the recurrent layers."""
        names = self.setup.network.state_shapes()
        return {name: state.asnumpy()[0] for name, state in zip(names, self.states, strict=False)}

    def reset_recurrent_state(self) -> None:
        """Let the recurrent layers begin with zeros."""
        self.states = []

    def set_dropout_masks(self, masks: Weights) -> None:
        """Set the masks of the next step."""
        for name, mask in masks.items():
            parameter = self.net.blocks[name].mask
            if parameter.shape != mask.shape:
                # The first mask says how large a batch is; the plan of the block is made anew.
                parameter._shape = mask.shape
                parameter.initialize(mx.init.One(), force_reinit=True)
                self.net.hybridize(**HYBRIDIZE_OPTIONS[self.setup.variant])
            parameter.set_data(mx.nd.array(mask, dtype=self.setup.dtype))

    def communication_stats(self) -> None:
        """Tell nothing: MXNet shows no clock of an exchange inside a step."""

    def close(self) -> None:
        """Do nothing: nobody else is there."""
