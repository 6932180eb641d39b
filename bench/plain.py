"""LeNets and AlexNet as they are written by hand in each framework, layer by layer."""

from __future__ import annotations

from typing import Any

#: Per layer: ("conv", channels, kernel, stride, padding), ("pool", kernel, stride),
#: ("dense", features), or a word: tanh, relu, flatten, dropout.
Layers = list[Any]


def _lenet(first: int, second: int, *dense: int) -> Layers:
    layers: Layers = []
    for channels in (first, second):
        layers += [("conv", channels, 5, 1, 0), "tanh", ("pool", 2, 2)]
    layers.append("flatten")
    for features in dense:
        layers += [("dense", features), "tanh"]
    return [*layers, ("dense", 10)]


def _alexnet() -> Layers:
    layers: Layers = [("conv", 96, 11, 4, 2), "relu", ("pool", 3, 2)]
    layers += [("conv", 256, 5, 1, 2), "relu", ("pool", 3, 2)]
    for channels in (384, 384, 256):
        layers += [("conv", channels, 3, 1, 1), "relu"]
    layers += [("pool", 3, 2), "flatten"]
    for _ in range(2):
        layers += ["dropout", ("dense", 4096), "relu"]
    return [*layers, ("dense", 10)]


NETWORKS = {
    "lenet5": _lenet(6, 16, 120, 84),
    "lenet": _lenet(20, 50, 500),
    "alexnet-small": _alexnet(),
}


def torch_plain(network: str) -> Any:
    """Build with PyTorch's modules, which infer the sizes of their inputs."""
    from torch import nn

    words = {"tanh": nn.Tanh, "relu": nn.ReLU, "flatten": nn.Flatten, "dropout": nn.Dropout}
    kinds = {
        "conv": nn.LazyConv2d,
        "pool": nn.MaxPool2d,
        "dense": nn.LazyLinear,
    }
    return nn.Sequential(
        *(
            words[layer]() if isinstance(layer, str) else kinds[layer[0]](*layer[1:])
            for layer in NETWORKS[network]
        )
    )


def keras_plain(network: str, shape: tuple[int, ...]) -> Any:
    """Build with Keras' layers, for images (height, width, channels)."""
    import keras

    layers = keras.layers
    built = [layers.Input(shape)]
    for layer in NETWORKS[network]:
        match layer:
            case ("conv", channels, kernel, stride, padding):
                same = stride == 1 and padding == kernel // 2
                if padding and not same:
                    built.append(layers.ZeroPadding2D(padding))
                word = "same" if same and padding else "valid"
                built.append(layers.Conv2D(channels, kernel, stride, padding=word))
            case ("pool", kernel, stride):
                built.append(layers.MaxPooling2D(kernel, stride))
            case ("dense", features):
                built.append(layers.Dense(features))
            case "flatten":
                built.append(layers.Flatten())
            case "dropout":
                built.append(layers.Dropout(0.5))
            case function:
                built.append(layers.Activation(function))
    return keras.Sequential(built)


def gluon_plain(network: str) -> Any:
    """Build with Gluon's blocks, with static allocation as ours."""
    import mxnet as mx

    nn = mx.gluon.nn
    net = nn.HybridSequential()
    for layer in NETWORKS[network]:
        match layer:
            case ("conv", channels, kernel, stride, padding):
                net.add(nn.Conv2D(channels, kernel, stride, padding))
            case ("pool", kernel, stride):
                net.add(nn.MaxPool2D(kernel, stride))
            case ("dense", features):
                net.add(nn.Dense(features))
            case "flatten":
                net.add(nn.Flatten())
            case "dropout":
                net.add(nn.Dropout(0.5))
            case function:
                net.add(nn.Activation(function))
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    return net


def jax_plain(network: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Write a pure function of weights, for images (height, width, channels).

    Returns
    -------
    tuple
        The initial weights, a list, and the function of weights, images and a key.
    """
    import jax
    import jax.numpy as jnp
    from jax import lax

    words = {"tanh": jnp.tanh, "relu": jax.nn.relu}
    dimensions = ("NHWC", "HWIO", "NHWC")

    def apply(weights: Any, values: Any, key: Any, layers: Layers = NETWORKS[network]) -> Any:
        remaining = iter(weights)
        for number, layer in enumerate(layers):
            match layer:
                case ("conv", _, _, stride, padding):
                    kernel, bias = next(remaining)
                    sides = [(padding, padding)] * 2
                    values = bias + lax.conv_general_dilated(
                        values, kernel, (stride, stride), sides, dimension_numbers=dimensions
                    )
                case ("pool", size, stride):
                    window, strides = (1, size, size, 1), (1, stride, stride, 1)
                    values = lax.reduce_window(values, -jnp.inf, lax.max, window, strides, "VALID")
                case ("dense", _):
                    matrix, bias = next(remaining)
                    values = values @ matrix + bias
                case "flatten":
                    values = values.reshape(len(values), -1)
                case "dropout":
                    drawn = jax.random.bernoulli(jax.random.fold_in(key, number), 0.5, values.shape)
                    values = jnp.where(drawn, values / 0.5, 0)
                case function:
                    values = words[function](values)
        return values

    initialize = jax.nn.initializers.glorot_uniform()
    key, images = jax.random.key(0), jnp.zeros((1, *shape))
    weights: list[Any] = []
    for number, layer in enumerate(NETWORKS[network]):
        if layer[0] in ("conv", "dense"):
            features = apply(weights, images, key, NETWORKS[network][:number]).shape[-1]
            window = [layer[2]] * 2 if layer[0] == "conv" else []
            kernel = initialize(jax.random.fold_in(key, number), (*window, features, layer[1]))
            weights.append((kernel, jnp.zeros(layer[1])))
    return weights, apply
