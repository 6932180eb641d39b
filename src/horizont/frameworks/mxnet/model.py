"""A described network as Gluon blocks. MXNet's layout is the canonical one, as PyTorch's is."""

from __future__ import annotations

from typing import Any

from horizont.frameworks.base import Weights
from horizont.frameworks.mxnet.compat import mx
from horizont.networks import Activation, Conv, Dense, Flatten, Layer, MaxPool, Network, Shape

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


def build_net(network: Network, weights: Weights, dtype: str) -> Any:
    """Build the network and put the given weights into it."""
    net = nn.HybridSequential()
    net.add(*(_block(layer, shape) for layer, shape in network.inputs()))
    net.cast(dtype)
    net.initialize(mx.init.Zero())
    for name, parameter in named_parameters(network, net).items():
        parameter.set_data(mx.nd.array(weights[name], dtype=dtype))
    net.hybridize(**HYBRID)
    return net


def named_parameters(network: Network, net: Any) -> dict[str, Any]:
    """Find the parameters by their canonical names, in the order of the layers."""
    return {
        f"{layer.name}.{short}": getattr(block, short)
        for (layer, shape), block in zip(network.inputs(), net, strict=True)
        for short in layer.weight_shapes(shape)
    }


def read_weights(parameters: dict[str, Any]) -> Weights:
    """Read the weights, as they are when all queued steps are over."""
    return {name: parameter.data().asnumpy() for name, parameter in parameters.items()}


def read_gradients(parameters: dict[str, Any]) -> Weights:
    """Read the gradients by the names of their weights."""
    return {name: parameter.grad().asnumpy() for name, parameter in parameters.items()}


def _block(layer: Layer, shape: Shape) -> Any:
    match layer:
        case Conv():
            return nn.Conv2D(
                layer.channels, layer.kernel, layer.stride, layer.padding, in_channels=shape[0]
            )
        case MaxPool():
            return nn.MaxPool2D(layer.kernel, layer.stride)
        case Activation():
            return nn.Activation(layer.function)
        case Flatten():
            return nn.Flatten() if layer.order == "chw" else FlattenLast()
        case Dense():
            return nn.Dense(layer.features, in_units=shape[0])
    raise TypeError(f"no MXNet form of {type(layer).__name__}")
