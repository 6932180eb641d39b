"""Training with JAX in a single process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from numpy.typing import NDArray

from horizont.frameworks import base
from horizont.frameworks.jax import model
from horizont.frameworks.jax.input import Batch, batches, input_converter
from horizont.frameworks.jax.model import Arrays, NetworkState
from horizont.frameworks.jax.optimizer import build_optimizer, slot_values
from horizont.networks.weights import statistic_shapes

#: Scopes of a training step outside the layers, which identify its parts in a profile.
LOSS_SCOPE = "loss"
UPDATE_SCOPE = "update"

#: Regions of the thread that calls the operators of an eager step, in a profile.
PHASES = ("forward", "backward", "update")


class TrainState(NamedTuple):
    """Everything that a training step changes."""

    weights: Arrays
    optimizer: Any
    network: NetworkState


class LocalTrainer(base.Trainer):
    """A network with its loss and update rule, as pure functions that are compiled.

    A step is one program. It is given the buffers of the train state (donation), so that XLA
    writes the new state in their place: one copy of weights and optimizer state is in memory, not
    two, and the arrays of the previous state are gone. An instrumented step is three programs; the
    values that the backward pass needs are outputs of the first and inputs of the second.
    """

    def __init__(self, setup: base.TrainingSetup) -> None:
        # A setting of the process, and of every array and program after it: trainers of both
        # precisions must not take turns.
        jax.config.update("jax_enable_x64", setup.dtype == "float64")
        self.setup = setup
        self.convert = input_converter(setup)
        self.optimizer = build_optimizer(setup)
        self.network = model.network_function(setup.network)
        self.masks: Arrays = {}
        weights = model.native_weights(setup)
        self.state = TrainState(weights, self.optimizer.init(weights), model.initial_state(setup))
        self._compile()

    def _compile(self) -> None:
        """Wrap the functions; each is compiled when it first meets a batch size."""
        self.train_program = self._program(self.train, donated=(0,))
        self.forward_program = self._program(self.forward)
        self.backward_program = self._program(self.backward)
        self.update_program = self._program(self.update, donated=(0, 1))
        self.differentiate_program = self._program(self.differentiate)
        self.score_program = self._program(partial(self.network, training=False))

    def _program(self, function: Callable[..., Any], donated: Sequence[int] = ()) -> Any:
        """Compile a function for the variant; the eager one calls it as it is."""
        if self.setup.variant == "eager":
            return function
        return jax.jit(function, donate_argnums=donated)

    def loss(
        self, weights: Arrays, state: NetworkState, batch: Batch, masks: Arrays
    ) -> tuple[jax.Array, tuple[jax.Array, NetworkState]]:
        """Compute the loss of a batch, its logits and the next state.

        The loss of a text is the sum over its time steps.
        """
        inputs, labels = batch
        logits, state = self.network(weights, state, inputs, masks, training=True)
        with jax.named_scope(LOSS_SCOPE):
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
            examples = losses.reshape(len(losses), -1).sum(axis=1)
            reduced = examples.mean() if self.setup.loss_reduction == "mean" else examples.sum()
        return reduced, (logits, state)

    def differentiate(
        self, weights: Arrays, state: NetworkState, batch: Batch, masks: Arrays
    ) -> tuple[jax.Array, jax.Array, NetworkState, Arrays]:
        """Compute loss, logits, next state and gradients."""
        loss, backward, logits, state = self.forward(weights, state, batch, masks)
        return loss, logits, state, self.backward(backward, loss)

    def forward(
        self, weights: Arrays, state: NetworkState, batch: Batch, masks: Arrays
    ) -> tuple[jax.Array, Any, jax.Array, NetworkState]:
        """Compute the loss, the function from its gradient to those of the weights, and the rest.

        The function is a tree of arrays, the values that the backward pass needs.
        """
        with jax.profiler.TraceAnnotation("forward"):
            loss, backward, (logits, state) = jax.vjp(
                lambda weights: self.loss(weights, state, batch, masks), weights, has_aux=True
            )
        return loss, backward, logits, state

    def backward(self, backward: Any, loss: jax.Array) -> Arrays:
        """Compute the gradients of the weights."""
        with jax.profiler.TraceAnnotation("backward"):
            (gradients,) = backward(jnp.ones_like(loss))
            factors = self.setup.gradient_factors
            return {
                name: gradient * factors[name] if name in factors else gradient
                for name, gradient in gradients.items()
            }

    def update(
        self, weights: Arrays, optimizer_state: Any, gradients: Arrays
    ) -> tuple[Arrays, Any]:
        """Return weights and optimizer state after an update."""
        with jax.named_scope(UPDATE_SCOPE), jax.profiler.TraceAnnotation("update"):
            updates, optimizer_state = self.optimizer.update(gradients, optimizer_state, weights)
            return optax.apply_updates(weights, updates), optimizer_state

    def train(self, state: TrainState, batch: Batch, masks: Arrays) -> tuple[TrainState, jax.Array]:
        """Run one training step; the body of the program of a step."""
        loss, _, network, gradients = self.differentiate(state.weights, state.network, batch, masks)
        return TrainState(*self.update(state.weights, state.optimizer, gradients), network), loss

    def batches(self, data: base.TrainingData) -> Iterator[Batch]:
        """Start the input pipeline."""
        return batches(data, self.convert)

    def _start_recurrent_state(self, examples: int) -> None:
        """Zero the recurrent state for a batch, if there is none."""
        network = self.state.network
        if not network.recurrent:
            self._replace_recurrent_state(
                {
                    name: jnp.zeros((examples, *shape), self.setup.dtype)
                    for name, shape in self.setup.network.state_shapes().items()
                }
            )

    def _replace_recurrent_state(self, recurrent: Arrays) -> None:
        network = self.state.network._replace(recurrent=recurrent)
        self.state = self.state._replace(network=network)

    def step(self, batch: Batch) -> jax.Array:
        """Run one training step."""
        self._start_recurrent_state(len(batch[0]))
        self.state, loss = self.train_program(self.state, batch, self.masks)
        return loss

    def instrumented_step(self, batch: Batch, mark: base.PhaseMark) -> jax.Array:
        """Run one training step, each program after the end of the previous one."""
        self._start_recurrent_state(len(batch[0]))
        weights, optimizer_state, network = self.state
        loss, backward, _, network = jax.block_until_ready(
            self.forward_program(weights, network, batch, self.masks)
        )
        mark("forward")
        gradients = jax.block_until_ready(self.backward_program(backward, loss))
        mark("backward")
        gradients = self.exchange_gradients(gradients, mark)
        weights, optimizer_state = jax.block_until_ready(
            self.update_program(weights, optimizer_state, gradients)
        )
        self.state = TrainState(weights, optimizer_state, network)
        mark("update")
        return loss

    def exchange_gradients(self, gradients: Arrays, mark: base.PhaseMark) -> Arrays:
        """Return the gradients: there are no other workers."""
        del mark
        return gradients

    def compile_instrumented_step(self, batch_size: int) -> None:
        """Compile the programs of the instrumented step by running them on a copy of the state."""
        network = self.setup.network
        state = self.state
        self.state = jax.tree.map(jnp.copy, state)
        if network.reads_text:
            inputs = targets = jnp.zeros((batch_size, *network.input_shape), "int32")
        else:
            channels, *sides = network.input_shape
            inputs = jnp.zeros((batch_size, *sides, channels), self.setup.dtype)
            targets = jnp.zeros(batch_size, "int32")
        self.instrumented_step((inputs, targets), lambda phase, end_s=None: None)
        self.state = state

    def synchronize(self, loss: jax.Array) -> None:
        """Block until the program that computes this loss has finished."""
        loss.block_until_ready()

    def predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return scores of images or texts."""
        native = jnp.asarray(self.convert(base.to_channels_last(inputs)))
        self._start_recurrent_state(len(native))
        scores, network = self.score_program(
            self.state.weights, self.state.network, native, self.masks
        )
        self._replace_recurrent_state(network.recurrent)
        return model.to_numpy(scores)

    def forward_backward(self, batch: Batch) -> base.ForwardBackward:
        """Return logits, loss and gradients; the state stays as it is."""
        state = self.state
        self._start_recurrent_state(len(batch[0]))
        loss, logits, _, gradients = self.differentiate_program(
            self.state.weights, self.state.network, batch, self.masks
        )
        self.state = state
        named = model.to_canonical(self.setup.network, gradients)
        return base.ForwardBackward(model.to_numpy(logits), float(loss), named)

    def weights(self) -> base.Weights:
        """Return the weights."""
        return model.to_canonical(self.setup.network, self.state.weights)

    def running_statistics(self) -> base.Weights:
        """Return the running statistics."""
        return model.to_named(self.state.network.statistics, statistic_shapes(self.setup.network))

    def optimizer_state(self) -> base.Weights:
        """Return the state of the optimizer."""
        return slot_values(self.setup, self.state.optimizer)

    def recurrent_state(self) -> base.Weights:
        """Return the state of the recurrent layers."""
        state = self.state.network.recurrent
        return model.to_named(state, self.setup.network.state_shapes()) if state else {}

    def set_recurrent_state(self, states: base.Weights) -> None:
        """Set the state of the recurrent layers."""
        self._replace_recurrent_state(
            {name: jnp.array(value, self.setup.dtype) for name, value in states.items()}
        )

    def reset_recurrent_state(self) -> None:
        """Zero the state of the recurrent layers."""
        self._replace_recurrent_state({})

    def set_dropout_masks(self, masks: base.Weights) -> None:
        """Set the masks of the next step."""
        self.masks = model.to_native_masks(masks, self.setup.dtype)
