"""A network as a Keras model: its loss, and its weights in canonical layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from horizont.frameworks.base import TrainingSetup, Weights
from horizont.frameworks.tensorflow.layers import ExternalDropout, build_keras_model
from horizont.networks.layers import Dense, Embedding, Flatten, Shape
from horizont.networks.network import Network
from horizont.networks.weights import (
    statistic_shapes,
    to_canonical_gates,
    to_native_gates,
    weight_shapes,
)

#: Name scopes of the graph of a training step, which identify its parts in a profile.
GRADIENTS_SCOPE = "gradients"
LOSS_SCOPE = "loss"
UPDATE_SCOPE = "update"


@dataclass(frozen=True)
class VariableLayout:
    """The variable of a weight or statistic, and its layout.

    Attributes
    ----------
    window
        The shape of the weight as a convolution, (out, channels, height, width). A fully connected
        layer after a flattened image is a convolution whose window is the whole image.
    keras_variable, variable
        Keras' variable, and TensorFlow's inside it.
    """

    name: str
    canonical_shape: Shape
    window: Shape
    keras_variable: Any
    variable: Any

    def to_native(self, value: NDArray[Any]) -> NDArray[Any]:
        """Convert a canonical value to TensorFlow's layout: (height, width, channels, out)."""
        native = value.reshape(self.window).transpose(2, 3, 1, 0)
        return native.reshape(self.variable.shape.as_list())

    def to_canonical(self, value: NDArray[Any]) -> NDArray[Any]:
        """Convert a value in TensorFlow's layout to the canonical one."""
        out, channels, height, width = self.window
        native = value.reshape(height, width, channels, out)
        return np.ascontiguousarray(native.transpose(3, 2, 0, 1)).reshape(self.canonical_shape)


@dataclass(frozen=True)
class Model:
    """A network of Keras layers with its loss, and its weights in the order of the layers."""

    setup: TrainingSetup
    network: Any
    layouts: tuple[VariableLayout, ...]
    statistic_layouts: tuple[VariableLayout, ...]
    external_dropouts: Mapping[str, ExternalDropout]

    @property
    def variables(self) -> list[Any]:
        """TensorFlow's variables of the weights."""
        return [layout.variable for layout in self.layouts]

    def weights(self) -> Weights:
        """Return the weights by canonical name and in canonical layout."""
        return self.to_named_weights(self.variables)

    def to_named_weights(self, values: Sequence[Any]) -> Weights:
        """Return variables or tensors like them by canonical name and in canonical layout."""
        named = {
            layout.name: layout.to_canonical(value.numpy())
            for layout, value in zip(self.layouts, values, strict=True)
        }
        return to_canonical_gates(self.setup.network, named)

    def loss(self, logits: Any, labels: Any) -> Any:
        """Compute the loss of a batch; the loss of a text is the sum over its time steps.

        Logits are (examples, classes) or (examples, time steps, classes), labels class indices,
        int64, (examples,) or (examples, time steps).
        """
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        if len(losses.shape) > 1:
            losses = tf.reduce_sum(losses, axis=1)
        reduce = tf.reduce_mean if self.setup.loss_reduction == "mean" else tf.reduce_sum
        return reduce(losses)

    def score(self, inputs: Any, states: Sequence[Any], *, training: bool) -> tuple[Any, list[Any]]:
        """Compute scores, and the recurrent states after the batch."""
        if not states:
            return self.network(inputs, training=training), []
        scores, *final_states = self.network([inputs, *states], training=training)
        return scores, final_states

    def stateless_score(
        self, values: Sequence[Any], inputs: Any, states: Sequence[Any]
    ) -> tuple[Any, list[Any], list[Any]]:
        """Compute scores in training mode with the given values of the weights.

        Return scores, recurrent states, and the new values of the non-trainable variables.
        """
        variables = (id(layout.keras_variable) for layout in self.layouts)
        value_of = dict(zip(variables, values, strict=True))
        outputs, non_trainable = self.network.stateless_call(
            [value_of[id(variable)] for variable in self.network.trainable_variables],
            [variable.value for variable in self.network.non_trainable_variables],
            [inputs, *states] if states else inputs,
            training=True,
        )
        scores, *final_states = outputs if states else [outputs]
        return scores, final_states, non_trainable

    def running_statistics(self) -> Weights:
        """Return the running statistics by canonical name."""
        return {layout.name: layout.variable.numpy() for layout in self.statistic_layouts}

    def set_running_statistics(self, statistics: Weights) -> None:
        """Set running statistics by canonical name."""
        layouts = {layout.name: layout for layout in self.statistic_layouts}
        for name, value in statistics.items():
            variable = layouts[name].variable
            variable.assign(value.astype(variable.dtype.as_numpy_dtype))


def build_model(setup: TrainingSetup) -> Model:
    """Build the network under the current strategy, with its initial weights and statistics."""
    network = setup.network
    built = build_keras_model(network, setup.dtype, setup.seed)
    model = Model(
        setup,
        built,
        _variable_layouts(built, network, weight_shapes(network)),
        _variable_layouts(built, network, statistic_shapes(network)),
        {layer.name: layer for layer in built.layers if isinstance(layer, ExternalDropout)},
    )
    native = to_native_gates(network, setup.weights)
    for layout in model.layouts:
        layout.variable.assign(layout.to_native(native[layout.name]).astype(setup.dtype))
    model.set_running_statistics(setup.running_statistics)
    return model


#: Keras' names of a weight or statistic; the first one that a layer has.
ATTRIBUTES = {
    "weight": ("kernel", "gamma", "embeddings"),
    "input_weight": ("kernel",),
    "hidden_weight": ("recurrent_kernel",),
    "bias": ("bias", "beta"),
    "mean": ("moving_mean",),
    "variance": ("moving_variance",),
}


def _variable_layouts(
    built: Any, network: Network, shapes: Mapping[str, Shape]
) -> tuple[VariableLayout, ...]:
    """Return variable and layout of each weight or statistic."""
    windows = _special_windows(network)
    # Under a strategy a variable is a container; the local one inside it is trained.
    strategy = tf.distribute.get_strategy()
    layouts = []
    for name, shape in shapes.items():
        layer_name, short = name.rsplit(".", 1)
        layer = built.get_layer(layer_name)
        layer = getattr(layer, "cell", layer)  # a recurrent layer keeps its weights in a cell
        keras_variable = next(
            getattr(layer, key) for key in ATTRIBUTES[short] if hasattr(layer, key)
        )
        variable = strategy.experimental_local_results(keras_variable.value)[0]
        window = (*shape, 1, 1, 1)[:4]
        if len(shape) > 1:
            window = windows.get(layer_name, window)
        layouts.append(VariableLayout(name, shape, window, keras_variable, variable))
    return tuple(layouts)


def _special_windows(network: Network) -> dict[str, Shape]:
    """Return the windows, (out, channels, height, width), that are not the shape of the weight.

    The rows of the matrix after a flattened image are in TensorFlow's order, channels fastest. The
    mutation that flattens `hwc` keeps them in the canonical order. Both layouts of an embedding
    table are the same.
    """
    windows: dict[str, Shape] = {}
    image: Shape | None = None
    for context in network.layer_contexts:
        layer, shape = context.layer, context.shape
        match layer:
            case Flatten(order="chw") if len(shape) == 3:
                image = shape
            case Dense():
                if image:
                    windows[layer.name] = (layer.features, *image)
                image = None
            case Embedding():
                windows[layer.name] = (1, 1, layer.words, layer.features)
    return windows
