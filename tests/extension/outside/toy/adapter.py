"""A framework in NumPy: convolution, max pooling, dense layers, tanh, gradient descent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from horizont.config.framework import Device
from horizont.config.workload import OptimizerConfig
from horizont.errors import UserError
from horizont.frameworks.base import (
    ForwardBackward,
    FrameworkAdapter,
    InMemoryImages,
    PhaseMark,
    Trainer,
    TrainingData,
    TrainingSetup,
    Weights,
)
from horizont.networks.layers import Activation, Conv, Dense, Flatten, Layer, MaxPool

Array = np.ndarray[Any, Any]
Batch = tuple[Array, Array]


def windows(x: Array, kernel: int) -> Array:
    """Return all windows of images: (examples, channels, rows, columns, kernel, kernel)."""
    return np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))


class ToyTrainer(Trainer):
    """A network trained by gradient descent."""

    def __init__(self, setup: TrainingSetup) -> None:
        supported = OptimizerConfig(learning_rate=setup.optimizer.learning_rate)
        if setup.optimizer != supported:
            raise UserError("optimizer", setup.optimizer.name, "sgd with a learning rate only")
        for layer in setup.network.layers:
            _check_layer(layer)
        self.setup = setup
        self.values = {name: value.astype(setup.dtype) for name, value in setup.weights.items()}
        self.gradients: Weights = {}

    def batches(self, data: TrainingData) -> Iterator[Batch]:
        """Yield batches of images in memory."""
        if not isinstance(data, InMemoryImages):
            raise UserError("input.source", type(data).__name__, "images in memory")
        for indices in data.order:
            yield self._normalise(data.images[indices]), data.labels[indices]

    def _normalise(self, images: Array) -> Array:
        normalisation = self.setup.normalisation
        assert normalisation is not None
        images = images.repeat(normalisation.upscale, 2).repeat(normalisation.upscale, 3)
        scale, offset = normalisation.scale, normalisation.offset
        scaled = images * scale[:, None, None] + offset[:, None, None]
        return scaled.astype(self.setup.dtype)

    def step(self, batch: Batch) -> float:
        """Run one training step."""
        return self.instrumented_step(batch, lambda phase, end_s=None: None)

    def instrumented_step(self, batch: Batch, mark: PhaseMark) -> float:
        """Run one training step and mark its phases."""
        inputs, labels = batch
        outputs = self._forward(inputs)
        loss, gradient = self._loss(outputs[-1], labels)
        mark("forward")
        self._backward(outputs, gradient)
        mark("backward")
        for name, value in self.gradients.items():
            self.values[name] = self.values[name] - self.setup.optimizer.learning_rate * value
        mark("update")
        return loss

    def forward_backward(self, batch: Batch) -> ForwardBackward:
        """Return logits, loss and gradients."""
        outputs = self._forward(batch[0])
        loss, gradient = self._loss(outputs[-1], batch[1])
        self._backward(outputs, gradient)
        return ForwardBackward(outputs[-1], loss, dict(self.gradients))

    def predict(self, inputs: Array) -> Array:
        """Return scores of images."""
        return self._forward(self._normalise(inputs))[-1]

    def weights(self) -> Weights:
        """Return the weights."""
        return dict(self.values)

    def _loss(self, logits: Array, labels: Array) -> tuple[float, Array]:
        """Return the cross-entropy and its gradient with respect to the logits."""
        shifted = logits - logits.max(axis=1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        rows = np.arange(len(labels))
        gradient = np.exp(logs)
        gradient[rows, labels] -= 1
        count = len(labels) if self.setup.loss_reduction == "mean" else 1
        return float(-logs[rows, labels].sum() / count), gradient / count

    def _forward(self, inputs: Array) -> list[Array]:
        """Return the inputs and the outputs of all layers."""
        outputs = [inputs]
        for layer in self.setup.network.layers:
            outputs.append(self._output(layer, outputs[-1]))
        return outputs

    def _output(self, layer: Layer, x: Array) -> Array:
        if isinstance(layer, Conv):
            kernel, bias = self.values[f"{layer.name}.weight"], self.values[f"{layer.name}.bias"]
            product = np.tensordot(windows(x, layer.kernel), kernel, axes=((1, 4, 5), (1, 2, 3)))
            return np.moveaxis(product + bias, 3, 1)
        if isinstance(layer, MaxPool):
            return _pooling_windows(layer, x).max(axis=-1)
        if isinstance(layer, Activation):
            return np.tanh(x)
        if isinstance(layer, Flatten):
            return x.reshape(len(x), -1)
        return x @ self.values[f"{layer.name}.weight"].T + self.values[f"{layer.name}.bias"]

    def _backward(self, outputs: list[Array], gradient: Array) -> None:
        """Compute the gradients of all weights."""
        self.gradients = {}
        for number, layer in reversed(list(enumerate(self.setup.network.layers))):
            gradient = self._input_gradient(layer, outputs[number], outputs[number + 1], gradient)
        factors = self.setup.gradient_factors
        self.gradients = {name: self.gradients[name] * factors.get(name, 1) for name in self.values}

    def _input_gradient(self, layer: Layer, x: Array, y: Array, gradient: Array) -> Array:
        """Return the gradient of a layer's input, and store those of its weights."""
        if isinstance(layer, Conv):
            kernel = self.values[f"{layer.name}.weight"]
            self.gradients[f"{layer.name}.weight"] = np.tensordot(
                gradient, windows(x, layer.kernel), axes=((0, 2, 3), (0, 2, 3))
            )
            self.gradients[f"{layer.name}.bias"] = gradient.sum(axis=(0, 2, 3))
            edge = layer.kernel - 1
            padded = np.pad(gradient, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
            flipped = kernel[:, :, ::-1, ::-1]
            product = np.tensordot(windows(padded, layer.kernel), flipped, ((1, 4, 5), (0, 2, 3)))
            return np.moveaxis(product, 3, 1)
        if isinstance(layer, MaxPool):
            return _pooling_gradient(layer, x, gradient)
        if isinstance(layer, Activation):
            return gradient * (1 - y * y)
        if isinstance(layer, Flatten):
            return gradient.reshape(x.shape)
        self.gradients[f"{layer.name}.weight"] = gradient.T @ x
        self.gradients[f"{layer.name}.bias"] = gradient.sum(axis=0)
        return gradient @ self.values[f"{layer.name}.weight"]


def _check_layer(layer: Layer) -> None:
    is_plain_conv = isinstance(layer, Conv) and (layer.stride, layer.padding) == (1, 0)
    is_max_pool = isinstance(layer, MaxPool) and layer.mode == "max"
    is_tanh = isinstance(layer, Activation) and layer.function == "tanh"
    is_flatten = isinstance(layer, Flatten) and layer.order == "chw"
    if not (is_plain_conv or is_max_pool or is_tanh or is_flatten or isinstance(layer, Dense)):
        raise UserError("network", layer.name, "the layers of LeNet-5")


def _padded(layer: MaxPool, x: Array) -> Array:
    edges = (layer.padding, layer.padding)
    return np.pad(x, ((0, 0), (0, 0), edges, edges), constant_values=-np.inf)


def _pooling_windows(layer: MaxPool, x: Array) -> Array:
    view = windows(_padded(layer, x), layer.kernel)[:, :, :: layer.stride, :: layer.stride]
    return view.reshape(*view.shape[:4], -1)


def _pooling_gradient(layer: MaxPool, x: Array, gradient: Array) -> Array:
    """Return the gradient of the input: each output's goes to the maximum of its window."""
    argmax = _pooling_windows(layer, x).argmax(axis=-1)
    example, channel, row, column = np.indices(argmax.shape)
    rows = row * layer.stride + argmax // layer.kernel
    columns = column * layer.stride + argmax % layer.kernel
    result = np.zeros_like(_padded(layer, x))
    np.add.at(result, (example, channel, rows, columns), gradient)
    edge = layer.padding
    return result[:, :, edge : edge + x.shape[2], edge : edge + x.shape[3]]


class ToyAdapter(FrameworkAdapter):
    """The toy framework."""

    framework = "toy"

    def configure(self, threads: int, device: Device = "cpu") -> None:
        """Do nothing: NumPy reads the number of threads from the environment."""

    def trainer(self, setup: TrainingSetup) -> Trainer:
        """Return the trainer of a single process."""
        return ToyTrainer(setup)

    def features(self) -> dict[str, Any]:
        """Return no features."""
        return {}


ADAPTER = ToyAdapter()
