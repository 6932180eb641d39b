"""A described network as Gluon blocks. MXNet's layout is the canonical one, as PyTorch's is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mxnet as mx

from horizont.frameworks.base import TrainingSetup, Weights
from horizont.networks.layers import (
    GATES,
    LSTM,
    Activation,
    Add,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Shape,
)
from horizont.networks.network import INPUT, Network
from horizont.networks.weights import reorder_gates

nn = mx.gluon.nn

#: How a block is hybridized. It plans its memory once for the shape of its input and uses it
#: again at every step; the build without that plans anew each time. LeNet-5 trained about five
#: per cent faster with a plan; network and loss in one block were no faster still.
HYBRIDIZE_OPTIONS: dict[str, dict[str, bool]] = {
    "default": {"static_alloc": True, "static_shape": True},
    "dynamic_alloc": {},
}


class FlattenChannelsLast(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Flatten with the channels varying fastest, as a framework with channels last would."""

    def hybrid_forward(self, F: Any, images: Any) -> Any:
        """Flatten (examples, channels, height, width) to (examples, features)."""
        return F.flatten(F.transpose(images, axes=(0, 2, 3, 1)))


class ExternalDropout(mx.gluon.HybridBlock):  # type: ignore[misc]
    """A dropout whose mask comes from outside."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.mask = self.params.get("mask", shape=(1, *shape), grad_req="null", init="ones")

    def hybrid_forward(self, F: Any, values: Any, mask: Any) -> Any:
        """Multiply by the mask, which has the size of the batch."""
        return F.broadcast_mul(values, mask)


class GlobalAverage(mx.gluon.HybridBlock):  # type: ignore[misc]
    """The mean of each channel."""

    def hybrid_forward(self, F: Any, images: Any) -> Any:
        """Average (examples, channels, height, width) to (examples, channels)."""
        return F.mean(images, axis=(2, 3))


class Addition(mx.gluon.HybridBlock):  # type: ignore[misc]
    """The sum of several inputs."""

    def hybrid_forward(self, F: Any, value: Any, *others: Any) -> Any:
        """Add up."""
        for other in others:
            value = F.elemwise_add(value, other)
        return value


class Concatenation(mx.gluon.HybridBlock):  # type: ignore[misc]
    """The channels of several inputs in a row."""

    def hybrid_forward(self, F: Any, *images: Any) -> Any:
        """Concatenate."""
        return F.concat(*images, dim=1)


class StatefulLSTM(mx.gluon.rnn.LSTM):  # type: ignore[misc]
    """An LSTM layer that takes a state and hands one back, (1, examples, units) each.

    MXNet adds two biases; the second stays zero.
    """

    def __init__(self, features: int, layer: LSTM) -> None:
        super().__init__(layer.units, layout="NTC", input_size=features)
        self.gates = layer.gates
        self.l0_h2h_bias.grad_req = "null"


class NetworkModule(mx.gluon.HybridBlock):  # type: ignore[misc]
    """The layers of a network, each applied to what it receives.

    A recurrent network receives the states of its layers behind the input, and hands the new
    ones back behind the scores.
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.plan = []
        self.blocks = {}
        for place in network.layer_contexts:
            block = _block(place.layer, place.shape)
            self.register_child(block, place.layer.name)
            self.blocks[place.layer.name] = block
            self.plan.append((place.layer.name, place.sources, block))

    def hybrid_forward(self, F: Any, inputs: Any, *states: Any) -> Any:
        """Score images or texts."""
        del F
        values = {INPUT: inputs}
        before, after = iter(states), []
        for name, sources, block in self.plan:
            received = [values[source] for source in sources]
            if isinstance(block, StatefulLSTM):
                values[name], carried = block(received[0], [next(before), next(before)])
                after += carried
            else:
                values[name] = block(*received)
        return (values[name], *after) if after else values[name]


#: What a block calls a weight or statistic, in the order in which to look.
ATTRIBUTES = {
    "weight": ("weight", "gamma"),
    "bias": ("bias", "beta", "l0_i2h_bias"),
    "input_weight": ("l0_i2h_weight",),
    "hidden_weight": ("l0_h2h_weight",),
    "mean": ("running_mean",),
    "variance": ("running_var",),
}


def build_net(setup: TrainingSetup) -> Any:
    """Build the network and put weights and statistics into it."""
    net = NetworkModule(setup.network)
    net.cast(setup.dtype)
    net.initialize(mx.init.Zero())
    set_parameters(named_parameters(setup.weights, net), to_native(net, setup.weights))
    set_parameters(named_parameters(setup.running_statistics, net), setup.running_statistics)
    net.hybridize(**HYBRIDIZE_OPTIONS[setup.variant])
    return net


def named_parameters(names: Iterable[str], net: Any) -> dict[str, Any]:
    """Find the parameters of weights or statistics by their canonical names."""
    found = {}
    for name in names:
        layer, short = name.rsplit(".", 1)
        block = net.blocks[layer]
        found[name] = next(getattr(block, key) for key in ATTRIBUTES[short] if hasattr(block, key))
    return found


def to_native(net: Any, weights: Weights) -> Weights:
    """Lay canonical weights out as MXNet does."""
    return {
        name: reorder_gates(value, *_gate_orders(net, name, GATES))
        for name, value in weights.items()
    }


def to_canonical(net: Any, weights: Weights) -> Weights:
    """Lay MXNet's weights out as the project does."""
    return {
        name: reorder_gates(value, *reversed(_gate_orders(net, name, GATES)))
        for name, value in weights.items()
    }


def _gate_orders(net: Any, weight: str, native: str) -> tuple[str, str]:
    """Tell the orders of the gates, described and native, of a weight; others have one block."""
    block = net.blocks[weight.rsplit(".", 1)[0]]
    return (block.gates, native) if isinstance(block, StatefulLSTM) else ("*", "*")


def set_parameters(parameters: dict[str, Any], values: Weights) -> None:
    """Put values in the place of those that the parameters have."""
    for name, parameter in parameters.items():
        parameter.set_data(mx.nd.array(values[name], dtype=parameter.dtype))


def read_weights(parameters: dict[str, Any]) -> Weights:
    """Read parameters, as they are when all queued steps are over."""
    return {name: parameter.data().asnumpy() for name, parameter in parameters.items()}


def read_gradients(parameters: dict[str, Any]) -> Weights:
    """Read the gradients by the names of their weights."""
    return {name: parameter.grad().asnumpy() for name, parameter in parameters.items()}


def _block(layer: Layer, shape: Shape) -> Any:
    block: Any
    match layer:
        case Conv():
            block = nn.Conv2D(
                layer.channels,
                layer.kernel,
                layer.stride,
                layer.padding,
                in_channels=shape[0],
                use_bias=layer.bias,
            )
        case MaxPool():
            kind = nn.MaxPool2D if layer.mode == "max" else nn.AvgPool2D
            block = kind(layer.kernel, layer.stride, layer.padding)
        case BatchNorm():
            block = nn.BatchNorm(
                momentum=layer.momentum_float32, epsilon=layer.epsilon, in_channels=shape[0]
            )
        case Activation():
            block = nn.Activation(layer.function)
        case Dropout():
            block = ExternalDropout(shape) if layer.external_mask else nn.Dropout(layer.rate)
        case Flatten():
            block = nn.Flatten() if layer.order == "chw" else FlattenChannelsLast()
        case Dense():
            block = nn.Dense(layer.features, in_units=shape[-1], flatten=False)
        case Embedding():
            block = nn.Embedding(layer.words, layer.features)
        case LSTM():
            block = StatefulLSTM(shape[-1], layer)
        case _:
            block = PARAMETERLESS_LAYERS[type(layer)]()
    return block


#: Layers without settings of their own.
PARAMETERLESS_LAYERS: dict[type[Layer], Any] = {
    GlobalAveragePool: GlobalAverage,
    Add: Addition,
    Concat: Concatenation,
}
