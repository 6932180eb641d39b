"""Training with MXNet in one process.

MXNet queues what it is told and returns at once; a thread of its engine does the work in the
order of what depends on what. A step is therefore a promise until it is settled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from horizont.frameworks.base import (
    Ends,
    Examples,
    Mark,
    OnDisk,
    Probe,
    Recipe,
    Weights,
    Windows,
)
from horizont.frameworks.mxnet import input as pipeline
from horizont.frameworks.mxnet import readers
from horizont.frameworks.mxnet.compat import mx
from horizont.frameworks.mxnet.model import (
    HYBRID,
    build_net,
    canonically,
    named_parameters,
    put,
    read_gradients,
    read_weights,
)
from horizont.frameworks.mxnet.optimizer import (
    AGGREGATE,
    build_optimizer,
    canonical_state,
    clip,
    is_aggregated,
)
from horizont.frameworks.mxnet.stamps import StampedStep
from horizont.networks import statistic_shapes


class Promise(NamedTuple):
    """A step that was queued.

    Attributes
    ----------
    losses
        The loss of each example. It is there after the forward pass already.
    receipts
        Arrays that are there as soon as the step has changed all weights.
    """

    losses: Any
    receipts: list[Any]


class LocalTrainer:
    """A network, its loss and its update rule."""

    def __init__(self, recipe: Recipe) -> None:
        mx.random.seed(recipe.seed)
        self.recipe = recipe
        self.net = build_net(recipe)
        self.loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        self.loss.hybridize(**HYBRID[recipe.build])
        self.parameters = named_parameters(recipe.weights, self.net)
        self.tracked = named_parameters(statistic_shapes(recipe.network), self.net)
        self.data = [parameter.data() for parameter in self.parameters.values()]
        self.gradients = [parameter.grad() for parameter in self.parameters.values()]
        self.states: list[Any] = []
        self.convert = pipeline.converter(recipe)
        self.heads: dict[int, Any] = {}
        self._prepare_update()

    def _prepare_update(self) -> None:
        """Get ready to change the weights here, in this process."""
        rule = build_optimizer(self.recipe)
        for name, parameter in self.parameters.items():  # Gluon asks its parameters, not the rule
            parameter.wd_mult = 1.0 if self.recipe.decay(name) else 0.0
        self.updater = mx.gluon.Trainer(list(self.parameters.values()), rule, kvstore=None)
        # A receipt for each queued operation.
        self.receipted = self.data[:: AGGREGATE if is_aggregated(rule) else 1]

    def batches(self, examples: Examples | Windows | OnDisk) -> Iterator[pipeline.Batch]:
        """Start the input pipeline."""
        if isinstance(examples, OnDisk):
            return readers.batches(examples, self.convert)
        return pipeline.batches(examples, self.convert)

    def score(self, inputs: Any) -> Any:
        """Queue the scoring of a batch; a recurrent network goes on from the batch before."""
        shapes = self.recipe.network.state_shapes().values()
        if not shapes:
            return self.net(inputs)
        if not self.states:
            self.states = [
                mx.nd.zeros((1, len(inputs), *shape), dtype=self.recipe.dtype) for shape in shapes
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
        losses.backward(self._head(len(losses)))
        for name, factor in self.recipe.gradient_factors.items():
            gradient = self.parameters[name].grad()
            gradient *= factor

    def _head(self, examples: int) -> Any:
        """Tell the derivative of the batch's loss by the loss of each of its examples."""
        if examples not in self.heads:
            share = 1.0 / examples if self.recipe.loss_reduction == "mean" else 1.0
            share *= self.summed
            self.heads[examples] = mx.nd.array(np.full(examples, share), dtype=self.recipe.dtype)
        return self.heads[examples]

    @property
    def summed(self) -> int:
        """How many losses Gluon averages for each example where their sum is meant."""
        return math.prod(self.recipe.network.time_steps)

    def clip(self) -> None:
        """Queue the clipping of the gradients, if they are to be clipped."""
        if self.recipe.optimizer.clip_norm:
            clip(self.gradients, self.recipe.optimizer.clip_norm)

    def update(self) -> None:
        """Queue the change of the weights."""
        self.clip()
        self.updater.step(1)  # the gradient is the mean already

    def step(self, batch: pipeline.Batch) -> Promise:
        """Queue one training step."""
        losses = self.forward(batch)
        self.backward(losses)
        self.update()
        return Promise(losses, self._receipts())

    def timed_step(self, batch: pipeline.Batch, mark: Mark) -> Promise:
        """Make one training step, each phase after the end of the one before."""
        promise, ends = self.queue_timed_step(batch)
        for phase, end_s in ends():
            mark(phase, end_s)
        return promise

    def queue_timed_step(self, batch: pipeline.Batch) -> tuple[Promise, Ends]:
        """Queue the same step; as in bare steps, the engine need not wait for what is next."""
        step = StampedStep()
        losses = self.queue_losses(batch, step)
        self.backward(losses)
        step.ends("backward", holding=self.gradients)  # the update waits for all of them
        self.update()
        step.ends("update", holding=self.data)
        return Promise(losses, []), step.told

    def queue_losses(self, batch: pipeline.Batch, step: StampedStep) -> Any:
        """Queue the forward pass with its end, and return the promised losses.

        The backward pass could begin before the last losses are there; so it has to wait for
        what it begins with.
        """
        losses = self.forward(batch)
        step.ends("forward", after=[losses], holding=[self._head(len(losses))])
        return losses

    def _receipts(self) -> list[Any]:
        """Queue the smallest operation that reads the changed weights.

        To wait for the weights themselves would be to wait for every step queued by then.
        """
        return [weight.size_array() for weight in self.receipted]

    def rehearse(self, examples: int) -> None:
        """Do nothing: timed steps are made of what bare steps are made of."""

    def settle(self, loss: Promise) -> None:
        """Wait until the step has changed the weights; later steps stay queued."""
        loss.losses.wait_to_read()
        for receipt in loss.receipts:
            receipt.wait_to_read()

    def loss_value(self, loss: Promise) -> float:
        """Read the loss of a batch, as its reduction says."""
        losses = loss.losses.asnumpy()
        mean = self.recipe.loss_reduction == "mean"
        return float(losses.mean() if mean else losses.sum()) * self.summed

    def predict(self, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Score images or texts."""
        return np.asarray(self.score(self.convert(inputs)).asnumpy())

    def probe(self, batch: pipeline.Batch) -> Probe:
        """Tell logits, loss and gradients without learning."""
        inputs, labels = batch
        before, states = self.statistics(), self.states
        with mx.autograd.record():
            logits = self.score(inputs)
            losses = self.loss(logits, labels)
        self.backward(losses)
        loss = self.loss_value(Promise(losses, []))
        put(self.tracked, before)
        self.states = states
        gradients = canonically(self.net, read_gradients(self.parameters))
        return Probe(logits.asnumpy(), loss, gradients)

    def weights(self) -> Weights:
        """Read the weights."""
        return canonically(self.net, read_weights(self.parameters))

    def statistics(self) -> Weights:
        """Read the tracked statistics."""
        return read_weights(self.tracked)

    def optimizer_state(self) -> Weights:
        """Read what the optimizer keeps; one that serves elsewhere is not seen."""
        settings = self.recipe.optimizer
        states = self.updater._updaters[0].states if settings.slots else {}
        return {
            f"{name}.{slot}": kept
            for place, name in enumerate(self.parameters)
            if place in states
            for slot, kept in zip(
                settings.slots, canonical_state(settings, states[place]), strict=True
            )
        }

    def carried(self) -> Weights:
        """Read the state of the recurrent layers."""
        names = self.recipe.network.state_shapes()
        return {name: state.asnumpy()[0] for name, state in zip(names, self.states, strict=False)}

    def forget(self) -> None:
        """Let the recurrent layers begin with zeros."""
        self.states = []

    def feed_masks(self, masks: Weights) -> None:
        """Set the masks of the next step."""
        for name, mask in masks.items():
            parameter = self.net.blocks[name].mask
            if parameter.shape != mask.shape:
                # The first mask says how large a batch is; the plan of the block is made anew.
                parameter._shape = mask.shape
                parameter.initialize(mx.init.One(), force_reinit=True)
                self.net.hybridize(**HYBRID[self.recipe.build])
            parameter.set_data(mx.nd.array(mask, dtype=self.recipe.dtype))

    def exchanged(self) -> None:
        """Tell nothing: MXNet shows no clock of an exchange inside a step."""

    def close(self) -> None:
        """Do nothing: nobody else is there."""
