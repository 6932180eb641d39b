"""A described network as Gluon blocks. MXNet's layout is the canonical one, as PyTorch's is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from horizont.frameworks.base import Recipe, Weights
from horizont.frameworks.mxnet.compat import mx
from horizont.networks import (
    INPUT,
    Activation,
    Add,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Flatten,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Network,
    Shape,
)

nn = mx.gluon.nn

#: A block plans its memory once for the shape of its input and uses it again at every step.
#: LeNet-5 trained about five per cent faster so than with plain hybridizing; network and loss
#: in one block were no faster still.
HYBRID = {"static_alloc": True, "static_shape": True}


class FlattenLast(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Flatten with the channels varying fastest, as a framework with channels last would."""

    def hybrid_forward(self, F: Any, images: Any) -> Any:
        """Flatten (examples, channels, height, width) to (examples, features)."""
        return F.flatten(F.transpose(images, axes=(0, 2, 3, 1)))


class Fed(mx.gluon.HybridBlock):  # type: ignore[misc]
    """A dropout whose mask comes from outside."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.mask = self.params.get("mask", shape=(1, *shape), grad_req="null", init="ones")

    def hybrid_forward(self, F: Any, values: Any, mask: Any) -> Any:
        """Multiply by the mask, which has the size of the batch."""
        return F.broadcast_mul(values, mask)


class Mean(mx.gluon.HybridBlock):  # type: ignore[misc]
    """The mean of each channel."""

    def hybrid_forward(self, F: Any, images: Any) -> Any:
        """Average (examples, channels, height, width) to (examples, channels)."""
        return F.mean(images, axis=(2, 3))


class Sum(mx.gluon.HybridBlock):  # type: ignore[misc]
    """The sum of several inputs."""

    def hybrid_forward(self, F: Any, value: Any, *others: Any) -> Any:
        """Add up."""
        for other in others:
            value = F.elemwise_add(value, other)
        return value


class Join(mx.gluon.HybridBlock):  # type: ignore[misc]
    """The channels of several inputs in a row."""

    def hybrid_forward(self, F: Any, *images: Any) -> Any:
        """Concatenate."""
        return F.concat(*images, dim=1)


class Graph(mx.gluon.HybridBlock):  # type: ignore[misc]
    """The layers of a network, each applied to what it receives."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.plan = []
        self.blocks = {}
        for place in network.places:
            block = _block(place.layer, place.shape)
            self.register_child(block, place.layer.name)
            self.blocks[place.layer.name] = block
            self.plan.append((place.layer.name, place.sources, block))

    def hybrid_forward(self, F: Any, images: Any) -> Any:
        """Score images."""
        del F
        values = {INPUT: images}
        for name, sources, block in self.plan:
            values[name] = block(*(values[source] for source in sources))
        return values[name]


#: What a block calls a weight or statistic, in the order in which to look.
ATTRIBUTES = {
    "weight": ("weight", "gamma"),
    "bias": ("bias", "beta"),
    "mean": ("running_mean",),
    "variance": ("running_var",),
}


def build_net(recipe: Recipe) -> Any:
    """Build the network and put weights and statistics into it."""
    net = Graph(recipe.network)
    net.cast(recipe.dtype)
    net.initialize(mx.init.Zero())
    put(named_parameters(recipe.weights, net), recipe.weights)
    put(named_parameters(recipe.statistics, net), recipe.statistics)
    net.hybridize(**HYBRID)
    return net


def named_parameters(names: Iterable[str], net: Any) -> dict[str, Any]:
    """Find the parameters of weights or statistics by their canonical names."""
    found = {}
    for name in names:
        layer, short = name.rsplit(".", 1)
        block = net.blocks[layer]
        found[name] = next(getattr(block, key) for key in ATTRIBUTES[short] if hasattr(block, key))
    return found


def put(parameters: dict[str, Any], values: Weights) -> None:
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
        case GlobalAveragePool():
            block = Mean()
        case BatchNorm():
            block = nn.BatchNorm(momentum=layer.kept, epsilon=layer.epsilon, in_channels=shape[0])
        case Activation():
            block = nn.Activation(layer.function)
        case Dropout():
            block = Fed(shape) if layer.fed else nn.Dropout(layer.rate)
        case Flatten():
            block = nn.Flatten() if layer.order == "chw" else FlattenLast()
        case Dense():
            block = nn.Dense(layer.features, in_units=shape[0])
        case Add():
            block = Sum()
        case Concat():
            block = Join()
        case _:
            raise TypeError(f"no MXNet form of {type(layer).__name__}")
    return block
