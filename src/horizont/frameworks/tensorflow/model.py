"""Names of the parts of a training step in the graph; a profile finds them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from horizont.frameworks.base import TrainingSetup, Weights
from horizont.frameworks.tensorflow.layers import ExternalDropout, build_network
from horizont.networks.layers import GATES, LSTM, Conv, Dense, Embedding, Flatten, Shape
from horizont.networks.network import Network
from horizont.networks.weights import reorder_gates, statistic_shapes, weight_shapes

GRADIENTS_SCOPE = "gradients"
LOSS_SCOPE = "loss"
UPDATE_SCOPE = "update"


class FusedCrossEntropy:
    """Cross entropy of scores against class numbers, by TensorFlow's fused operator."""

    def __init__(self, reduction: Literal["mean", "sum"]) -> None:
        self.reduce = tf.reduce_mean if reduction == "mean" else tf.reduce_sum

    def __call__(self, logits: Any, labels: Any) -> Any:
        """Compute the loss of a batch; that of a text is summed over its time steps.

        Parameters
        ----------
        logits
            Scores, (examples, classes) or (examples, time steps, classes).
        labels
            Class numbers, int64, (examples,) or (examples, time steps).
        """
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        if len(losses.shape) > 1:
            losses = tf.reduce_sum(losses, axis=1)
        return self.reduce(losses)


@dataclass(frozen=True)
class VariableLayout:
    """A weight or statistic of the network: where TensorFlow keeps it, and how it lies there.

    Attributes
    ----------
    held, variable
        Keras' variable, and TensorFlow's inside it.
    window
        The weight seen as a convolution, (out, channels, height, width). A fully connected
        layer behind a flattened image is one whose window is the whole image.
    gates
        The order of the gates in the canonical weight; "*" where there are none.
    """

    name: str
    canonical_shape: Shape
    window: Shape
    keras_variable: Any
    variable: Any
    gates: str = "*"

    def to_native(self, value: NDArray[Any]) -> NDArray[Any]:
        """Lay out a canonical value as TensorFlow does: (height, width, channels, out)."""
        value = reorder_gates(value, self.gates, self._native_gates)
        native = value.reshape(self.window).transpose(2, 3, 1, 0)
        return native.reshape(self.variable.shape.as_list())

    def to_canonical(self, value: NDArray[Any]) -> NDArray[Any]:
        """Lay out TensorFlow's value as the project does."""
        out, channels, height, width = self.window
        native = value.reshape(height, width, channels, out)
        value = np.ascontiguousarray(native.transpose(3, 2, 0, 1)).reshape(self.canonical_shape)
        return reorder_gates(value, self._native_gates, self.gates)

    @property
    def _native_gates(self) -> str:
        return "*" if self.gates == "*" else GATES


@dataclass(frozen=True)
class Model:
    """A network built of Keras layers, with its weights in the order of the layers."""

    network: Any
    layouts: tuple[VariableLayout, ...]
    statistic_layouts: tuple[VariableLayout, ...]
    external_dropouts: Mapping[str, ExternalDropout]

    @property
    def variables(self) -> list[Any]:
        """The weights as TensorFlow's variables."""
        return [slot.variable for slot in self.layouts]

    def weights(self) -> Weights:
        """Read the weights by canonical name and in canonical layout."""
        return self.to_named_weights([variable.numpy() for variable in self.variables])

    def to_named_weights(self, values: Sequence[NDArray[Any]]) -> Weights:
        """Name values, one for each variable, and lay them out canonically."""
        return {
            slot.name: slot.to_canonical(value)
            for slot, value in zip(self.layouts, values, strict=True)
        }

    def score(self, inputs: Any, states: Sequence[Any], *, training: bool) -> tuple[Any, list[Any]]:
        """Compute scores, and the states of a recurrent network after the batch."""
        if not states:
            return self.network(inputs, training=training), []
        scores, *after = self.network([inputs, *states], training=training)
        return scores, after

    def stateless_score(
        self, values: Sequence[Any], inputs: Any, states: Sequence[Any]
    ) -> tuple[Any, list[Any], list[Any]]:
        """Compute scores with given values in the place of the weights, as while training.

        Returns
        -------
        tuple
            Scores, states, and what becomes of everything that is tracked.
        """
        given = dict(zip((id(slot.keras_variable) for slot in self.layouts), values, strict=True))
        told, tracked = self.network.stateless_call(
            [given[id(held)] for held in self.network.trainable_variables],
            [held.value for held in self.network.non_trainable_variables],
            [inputs, *states] if states else inputs,
            training=True,
        )
        scores, *after = told if states else [told]
        return scores, after, tracked

    def assign_non_trainable(self, values: Sequence[Any]) -> None:
        """Keep what has become of everything that is tracked."""
        for held, value in zip(self.network.non_trainable_variables, values, strict=True):
            held.value.assign(value)

    def running_statistics(self) -> Weights:
        """Read the tracked statistics by canonical name."""
        return {slot.name: slot.variable.numpy() for slot in self.statistic_layouts}

    def set_running_statistics(self, statistics: Weights) -> None:
        """Put statistics in the place of those that are tracked."""
        slots = {slot.name: slot for slot in self.statistic_layouts}
        for name, value in statistics.items():
            variable = slots[name].variable
            variable.assign(value.astype(variable.dtype.as_numpy_dtype))


def build_model(setup: TrainingSetup) -> Model:
    """Build the network, under the current strategy, and put weights and statistics into it."""
    network, dtype = setup.network, setup.dtype
    built = build_network(network, dtype, setup.seed)
    model = Model(
        built,
        tuple(_variable_layouts(built, network, weight_shapes(network))),
        tuple(_variable_layouts(built, network, statistic_shapes(network))),
        {layer.name: layer for layer in built.layers if isinstance(layer, ExternalDropout)},
    )
    for slot in model.layouts:
        slot.variable.assign(slot.to_native(setup.weights[slot.name]).astype(dtype))
    model.set_running_statistics(setup.running_statistics)
    return model


#: What Keras calls a weight or statistic of a layer, in the order in which to look.
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
) -> list[VariableLayout]:
    """Find the variable of each weight or statistic."""
    windows = _kernel_windows(network)
    gates = {layer.name: layer.gates for layer in network.layers if isinstance(layer, LSTM)}
    # Under a strategy a variable is a container; the one that it keeps here is what is trained.
    strategy = tf.distribute.get_strategy()
    slots = []
    for name, shape in shapes.items():
        layer_name, short = name.rsplit(".", 1)
        layer = built.get_layer(layer_name)
        layer = getattr(layer, "cell", layer)  # a recurrent layer is a cell that is repeated
        held = next(getattr(layer, key) for key in ATTRIBUTES[short] if hasattr(layer, key))
        variable = strategy.experimental_local_results(held.value)[0]
        window = (*shape, 1, 1, 1)[:4]
        if len(shape) > 1:
            window = windows.get(layer_name, window)
        order = gates.get(layer_name, "*")
        slots.append(VariableLayout(name, shape, window, held, variable, order))
    return slots


def _kernel_windows(network: Network) -> dict[str, Shape]:
    """Tell, for each layer with weights, what its matrix or kernel sees, as (out, c, h, w).

    The matrix behind a flattened image has its rows in the order in which TensorFlow flattens,
    channels fastest. Flattening `hwc` is the fault that leaves them where they were.
    """
    windows: dict[str, Shape] = {}
    image: Shape | None = None
    for place in network.layer_contexts:
        layer, shape = place.layer, place.shape
        match layer:
            case Conv():
                windows[layer.name] = (layer.channels, shape[0], layer.kernel, layer.kernel)
            case Flatten(order="chw") if len(shape) == 3:
                image = shape
            case Dense():
                windows[layer.name] = (layer.features, *(image or (shape[-1], 1, 1)))
                image = None
            case Embedding():  # the table lies as it is
                windows[layer.name] = (1, 1, layer.words, layer.features)
    return windows
