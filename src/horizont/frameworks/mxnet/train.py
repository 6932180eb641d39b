"""Training with MXNet in a single process, with timestamps inside its engine.

A timestamp is queued like any operation, so that the program can queue the next operations instead
of waiting. The engine orders operations only by the arrays that they read and write; a timestamp
that claims to write an array delays whatever uses the array next.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np
import numpy.typing as npt

from horizont.frameworks import base
from horizont.frameworks.mxnet import model, optimizer
from horizont.frameworks.mxnet.input import Batch, batches, input_converter
from horizont.networks.weights import statistic_shapes, to_canonical_gates

#: Clock readings by their id, until `EngineTimestamps.phase_ends` returns them.
_readings_s: dict[int, float] = {}
_reading_ids = itertools.count(1)  # not 0, which ctypes passes as a null pointer


def _record_reading(_: int | None, reading_id: int) -> None:
    """Record the time; a thread of the engine calls this."""
    _readings_s[reading_id] = monotonic()


_read_clock = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(_record_reading)


class _Context(ctypes.Structure):
    """The engine's description of a device."""

    _fields_ = (("type", ctypes.c_int), ("number", ctypes.c_int32))


_CPU_CONTEXT = _Context(mx.cpu().device_typeid, 0)
_NORMAL_PRIORITY = ctypes.c_int(0)
#: A property of operations that the engine must not merge with others.
_UNBULKED = 1


class EngineTimestamps:
    """The phases of a step with their ends, read by the engine."""

    def __init__(self) -> None:
        self._ends: list[tuple[str, int]] = []
        # Each reading claims to write it, so they run in order, and the last one can be awaited.
        self._sequence = mx.nd.zeros(1)

    def end_phase(
        self, phase: str, *, after: Sequence[Any] = (), blocking: Sequence[Any] = ()
    ) -> None:
        """Queue the end of a phase.

        Parameters
        ----------
        after
            Arrays that are available when the phase has ended.
        blocking
            Further ones; an operation that uses one of them next starts after the timestamp.
        """
        reading_id = next(_reading_ids)
        written = [*blocking, self._sequence]
        mx.base.check_call(
            mx.base._LIB.MXEnginePushSyncND(
                _read_clock,
                ctypes.c_void_p(reading_id),
                None,
                ctypes.byref(_CPU_CONTEXT),
                _handles(after),
                len(after),
                _handles(written),
                len(written),
                ctypes.byref(_NORMAL_PRIORITY),
                _UNBULKED,
                b"read_clock",
            )
        )
        self._ends.append((phase, reading_id))

    def phase_ends(self) -> list[tuple[str, float]]:
        """Wait for the last phase; return the phases with their ends, in monotonic seconds."""
        self._sequence.wait_to_read()
        return [(phase, _readings_s.pop(reading_id)) for phase, reading_id in self._ends]


def _handles(arrays: Sequence[Any]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(array.handle for array in arrays))


class PendingLoss(NamedTuple):
    """The loss of a queued step.

    Attributes
    ----------
    losses
        The loss of each example, available after the forward pass.
    completion_markers
        Arrays that are available when the step has updated all weights.
    """

    losses: Any
    completion_markers: list[Any]


class LocalTrainer(base.EngineQueuedTrainer):
    """A network with its loss and update rule, whose steps are queued on MXNet's engine.

    Attributes
    ----------
    update_phase
        The phase of an instrumented step in which `update` runs.
    """

    update_phase = "update"

    def __init__(self, setup: base.TrainingSetup) -> None:
        mx.random.seed(setup.seed)
        self.setup = setup
        self.net = model.build_net(setup)
        self.loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        self.loss.hybridize(**model.HYBRIDIZE_OPTIONS[setup.variant])
        self.parameters = model.named_parameters(setup.weights, self.net)
        self.statistic_parameters = model.named_parameters(
            statistic_shapes(setup.network), self.net
        )
        self.weight_arrays = [parameter.data() for parameter in self.parameters.values()]
        self.gradients = [parameter.grad() for parameter in self.parameters.values()]
        self.states: list[Any] = []
        self.convert = input_converter(setup)
        self.loss_gradients: dict[int, Any] = {}
        self._prepare_update()

    def _prepare_update(self) -> None:
        """Set up the update of the weights in this process."""
        rule = optimizer.build_optimizer(self.setup)
        # Gluon reads the weight decay from the parameters instead of the optimizer.
        for name, parameter in self.parameters.items():
            parameter.wd_mult = 1.0 if self.setup.weight_decay_of(name) else 0.0
        self.updater = mx.gluon.Trainer(list(self.parameters.values()), rule, kvstore=None)
        # One completion marker for each queued update operation, which may update several weights.
        self.marked_weights = self.weight_arrays[:: max(1, rule.aggregate_num)]

    def batches(self, data: base.TrainingData) -> Iterator[Batch]:
        """Start the input pipeline."""
        return batches(data, self.convert)

    def batch_inputs(self, batch: Batch) -> npt.NDArray[Any]:
        """Return the inputs of a batch."""
        return np.asarray(batch[0].asnumpy())

    def score(self, inputs: Any) -> Any:
        """Queue the scoring of a batch; a recurrent network continues from the previous batch."""
        shapes = self.setup.network.state_shapes().values()
        if not shapes:
            return self.net(inputs)
        if not self.states:
            self.states = [
                mx.nd.zeros((1, len(inputs), *shape), dtype=self.setup.dtype) for shape in shapes
            ]
        scores, *states = self.net(inputs, *self.states)
        self.states = [state.detach() for state in states]
        return scores

    def forward(self, batch: Batch) -> Any:
        """Queue the forward pass and return the pending loss of each example."""
        inputs, labels = batch
        with mx.autograd.record():
            return self.loss(self.score(inputs), labels)

    def backward(self, losses: Any) -> None:
        """Queue the backward pass of the loss of a batch.

        The mean over the batch is part of the initial gradient, in the precision of the network.
        With Gluon's usual division by the optimizer it would be taken in float32.
        """
        losses.backward(self._loss_gradient(len(losses)))
        for name, factor in self.setup.gradient_factors.items():
            gradient = self.parameters[name].grad()
            gradient *= factor

    def _loss_gradient(self, examples: int) -> Any:
        """Return the derivative of the loss of a batch with respect to that of each example."""
        if examples not in self.loss_gradients:
            derivative = 1.0 / examples if self.setup.loss_reduction == "mean" else 1.0
            derivative *= self.losses_per_example
            self.loss_gradients[examples] = mx.nd.array(
                np.full(examples, derivative), dtype=self.setup.dtype
            )
        return self.loss_gradients[examples]

    @property
    def losses_per_example(self) -> int:
        """The number of losses of an example, of which Gluon takes the mean instead of the sum."""
        return self.setup.network.input_shape[0] if self.setup.network.reads_text else 1

    def clip_gradients(self) -> None:
        """Queue the clipping of the gradients if the optimizer is configured to."""
        if self.setup.optimizer.clip_norm:
            optimizer.clip_gradients(self.gradients, self.setup.optimizer.clip_norm)

    def update(self) -> None:
        """Queue the update of the weights."""
        self.clip_gradients()
        self.updater.step(1)  # the gradient is the mean already

    def step(self, batch: Batch) -> PendingLoss:
        """Queue one training step."""
        losses = self.forward(batch)
        self.backward(losses)
        self.update()
        # The smallest operation that reads the updated weights: waiting for the weights themselves
        # would wait for every step queued in the meantime.
        return PendingLoss(losses, [weight.size_array() for weight in self.marked_weights])

    def enqueue_instrumented_step(self, batch: Batch) -> tuple[PendingLoss, base.PhaseEnds]:
        """Queue the same step; as without timestamps, the engine does not idle between steps."""
        timestamps = EngineTimestamps()
        losses = self.forward(batch)
        # The backward pass could start before the last losses are available; so the timestamp
        # blocks the array with which it starts.
        timestamps.end_phase("forward", after=[losses], blocking=[self._loss_gradient(len(losses))])
        self.backward(losses)
        self.end_backward_phase(timestamps)
        self.update()
        timestamps.end_phase(self.update_phase, blocking=self.weight_arrays)
        return PendingLoss(losses, []), timestamps.phase_ends

    def end_backward_phase(self, timestamps: EngineTimestamps) -> None:
        """Queue the end of the backward pass, for all of which the update waits."""
        timestamps.end_phase("backward", blocking=self.gradients)

    def synchronize(self, loss: PendingLoss) -> None:
        """Block until the step has updated the weights; later steps may still be queued."""
        loss.losses.wait_to_read()
        for marker in loss.completion_markers:
            marker.wait_to_read()

    def loss_value(self, loss: PendingLoss) -> float:
        """Return the loss of a batch by its reduction."""
        losses = loss.losses.asnumpy()
        mean = self.setup.loss_reduction == "mean"
        return float(losses.mean() if mean else losses.sum()) * self.losses_per_example

    def predict(self, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return scores of images or texts."""
        return np.asarray(self.score(self.convert(inputs)).asnumpy())

    def forward_backward(self, batch: Batch) -> base.ForwardBackward:
        """Return logits, loss and gradients; restore statistics and recurrent state."""
        inputs, labels = batch
        statistics, states = self.running_statistics(), self.states
        with mx.autograd.record():
            logits = self.score(inputs)
            losses = self.loss(logits, labels)
        self.backward(losses)
        loss = self.loss_value(PendingLoss(losses, []))
        model.set_parameters(self.net, statistics)
        self.states = states
        gradients = {name: value.grad().asnumpy() for name, value in self.parameters.items()}
        named = to_canonical_gates(self.setup.network, gradients)
        return base.ForwardBackward(logits.asnumpy(), loss, named)

    def weights(self) -> base.Weights:
        """Return the weights."""
        return to_canonical_gates(self.setup.network, model.read_parameters(self.parameters))

    def running_statistics(self) -> base.Weights:
        """Return the running statistics."""
        return model.read_parameters(self.statistic_parameters)

    def optimizer_state(self) -> base.Weights:
        """Return the state of the optimizer."""
        config = self.setup.optimizer
        states = self.updater._updaters[0].states if config.slots else {}
        return {
            f"{name}.{slot}": value
            for index, name in enumerate(self.parameters)
            if index in states
            for slot, value in zip(
                config.slots, optimizer.canonical_state(config, states[index]), strict=True
            )
        }

    def recurrent_state(self) -> base.Weights:
        """Return the state of the recurrent layers."""
        names = self.setup.network.state_shapes()
        return {name: state.asnumpy()[0] for name, state in zip(names, self.states, strict=False)}

    def set_recurrent_state(self, states: base.Weights) -> None:
        """Set the state of the recurrent layers."""
        names = self.setup.network.state_shapes()
        self.states = [mx.nd.array(states[name][None], dtype=self.setup.dtype) for name in names]

    def reset_recurrent_state(self) -> None:
        """Zero the state of the recurrent layers."""
        self.states = []

    def set_dropout_masks(self, masks: base.Weights) -> None:
        """Set the masks of the next step."""
        for name, mask in masks.items():
            parameter = self.net.blocks[name].mask
            if parameter.shape != mask.shape:
                # The first mask sets the batch size, for which the block plans its memory again.
                parameter._shape = mask.shape
                parameter.initialize(mx.init.One(), force_reinit=True)
                self.net.hybridize(**model.HYBRIDIZE_OPTIONS[self.setup.variant])
            parameter.set_data(mx.nd.array(mask, dtype=self.setup.dtype))
