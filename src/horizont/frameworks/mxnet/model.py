"""A network as Gluon blocks. MXNet's layout of weights is the canonical one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import mxnet as mx

from horizont.frameworks.base import TrainingSetup, Weights
from horizont.networks import layers
from horizont.networks.network import INPUT, Network
from horizont.networks.weights import to_native_gates

nn = mx.gluon.nn

#: Options of ``hybridize`` by variant. By default a block plans its memory once for the shape of
#: its input and reuses the plan at every step; the other variant plans at every step. LeNet-5
#: trained about five per cent faster with a plan; network and loss in one block were not faster.
HYBRIDIZE_OPTIONS: dict[str, dict[str, bool]] = {
    "default": {"static_alloc": True, "static_shape": True},
    "dynamic_alloc": {},
}


class ExternalDropout(mx.gluon.HybridBlock):
    """A dropout whose mask is set from outside."""

    def __init__(self, shape: layers.Shape) -> None:
        super().__init__()
        self.mask = self.params.get("mask", shape=(1, *shape), grad_req="null", init="ones")

    def hybrid_forward(self, F: Any, values: Any, mask: Any) -> Any:
        """Multiply by the mask, which has the size of the batch."""
        return F.broadcast_mul(values, mask)


class StatefulLSTM(mx.gluon.rnn.LSTM):
    """An LSTM layer that takes and returns a state, (1, examples, units) per part.

    MXNet adds two biases; the second stays zero.
    """

    def __init__(self, features: int, units: int) -> None:
        super().__init__(units, layout="NTC", input_size=features)
        self.l0_h2h_bias.grad_req = "null"


class NetworkModule(mx.gluon.HybridBlock):
    """The layers of a network, applied to the outputs of their sources.

    A recurrent network takes the states of its layers after the input, and returns the new ones
    after the scores.
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.plan = []
        self.blocks = {}
        for context in network.layer_contexts:
            name = context.layer.name
            block = _block(context.layer, context.shape)
            self.register_child(block, name)
            self.blocks[name] = block
            self.plan.append((name, context.sources, block))

    def hybrid_forward(self, F: Any, inputs: Any, *states: Any) -> Any:
        """Compute the scores of images or texts."""
        del F
        values = {INPUT: inputs}
        remaining, final = iter(states), []
        for name, sources, block in self.plan:
            received = [values[source] for source in sources]
            if isinstance(block, StatefulLSTM):
                values[name], state = block(received[0], [next(remaining), next(remaining)])
                final += state
            else:
                values[name] = block(*received)
        return (values[name], *final) if final else values[name]


#: MXNet's names of a weight or statistic; the first one that a block has.
ATTRIBUTES = {
    "weight": ("weight", "gamma"),
    "bias": ("bias", "beta", "l0_i2h_bias"),
    "input_weight": ("l0_i2h_weight",),
    "hidden_weight": ("l0_h2h_weight",),
    "mean": ("running_mean",),
    "variance": ("running_var",),
}


def build_net(setup: TrainingSetup) -> Any:
    """Build the network with its initial weights and statistics."""
    net = NetworkModule(setup.network)
    net.cast(setup.dtype)
    net.initialize(mx.init.Zero())
    set_parameters(net, to_native_gates(setup.network, setup.weights) | setup.running_statistics)
    net.hybridize(**HYBRIDIZE_OPTIONS[setup.variant])
    return net


def named_parameters(names: Iterable[str], net: Any) -> dict[str, Any]:
    """Return the parameters of weights or statistics by canonical name."""
    parameters = {}
    for name in names:
        layer, short = name.rsplit(".", 1)
        block = net.blocks[layer]
        attribute = next(key for key in ATTRIBUTES[short] if hasattr(block, key))
        parameters[name] = getattr(block, attribute)
    return parameters


def set_parameters(net: Any, values: Weights) -> None:
    """Set weights and statistics by canonical name."""
    for name, parameter in named_parameters(values, net).items():
        parameter.set_data(mx.nd.array(values[name], dtype=parameter.dtype))


def read_parameters(parameters: dict[str, Any]) -> Weights:
    """Return copies of parameters, after all queued steps."""
    return {name: parameter.data().asnumpy() for name, parameter in parameters.items()}


def _block(layer: layers.Layer, shape: layers.Shape) -> Any:
    block: Any
    match layer:
        case layers.Conv():
            block = nn.Conv2D(
                layer.channels,
                layer.kernel,
                layer.stride,
                layer.padding,
                in_channels=shape[0],
                use_bias=layer.bias,
            )
        case layers.MaxPool():
            kind = nn.MaxPool2D if layer.mode == "max" else nn.AvgPool2D
            block = kind(layer.kernel, layer.stride, layer.padding)
        case layers.Upsample():
            scale = layer.factor
            block = nn.HybridLambda(
                lambda F, images: F.UpSampling(images, scale=scale, sample_type="nearest")
            )
        case layers.BatchNorm():
            block = nn.BatchNorm(
                momentum=layer.momentum_float32, epsilon=layer.epsilon, in_channels=shape[0]
            )
        case layers.Activation():
            block = nn.Activation(layer.function)
        case layers.Dropout():
            block = ExternalDropout(shape) if layer.external_mask else nn.Dropout(layer.rate)
        case layers.Flatten():
            block = nn.Flatten() if layer.order == "chw" else nn.HybridLambda(_flatten_last)
        case layers.Dense():
            block = nn.Dense(layer.features, in_units=shape[-1], flatten=False)
        case layers.Embedding():
            block = nn.Embedding(layer.words, layer.features)
        case layers.LSTM():
            block = StatefulLSTM(shape[-1], layer.units)
        case _:
            block = nn.HybridLambda(FUNCTIONS[type(layer)])
    return block


def _flatten_last(F: Any, images: Any) -> Any:
    """Flatten with the channels varying fastest, as frameworks with channels last do."""
    return F.flatten(F.transpose(images, axes=(0, 2, 3, 1)))


#: Layers that are a function of their inputs: (examples, channels, height, width).
FUNCTIONS: dict[type[layers.Layer], Callable[..., Any]] = {
    layers.GlobalAveragePool: lambda F, images: F.mean(images, axis=(2, 3)),
    layers.Add: lambda F, *values: reduce(F.elemwise_add, values),
    layers.Concat: lambda F, *images: F.concat(*images, dim=1),
}
