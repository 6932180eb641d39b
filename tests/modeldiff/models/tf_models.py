"""Modules of TensorFlow without Keras, and saved ones."""

from __future__ import annotations

import tempfile
from typing import Any

import tensorflow as tf


def _variable(*shape: int, trainable: bool = True) -> Any:
    return tf.Variable(0.2 * tf.random.normal(shape), trainable=trainable)


class Images(tf.Module):
    """The network `Images` of the models of PyTorch, with channels last.

    Its batch norm is one operation, `tf.nn.batch_normalization`, or written in full.
    """

    def __init__(
        self,
        norm: str = "fused",
        epsilon: float = 1e-3,
        stride: int = 2,
        padding: int = 1,
        approximate: bool = False,
        momentum: float = 0.1,
        scale: float = 1.0,
        frozen: bool = False,
    ) -> None:
        super().__init__()
        self.kernel1 = _variable(3, 3, 3, 8)
        self.scale, self.offset = tf.Variable(tf.ones(8)), tf.Variable(tf.zeros(8))
        self.mean = tf.Variable(tf.zeros(8), trainable=False)
        self.variance = tf.Variable(tf.ones(8), trainable=False)
        self.kernel2, self.bias2 = _variable(3, 3, 8, 6), _variable(6)
        side = ((16 + 2 * padding - 3) // stride + 1) // 2
        self.kernel3, self.bias3 = _variable(6 * side**2, 16, trainable=not frozen), _variable(16)
        self.kernel4, self.bias4 = _variable(16, 5), _variable(5)
        self.norm, self.epsilon, self.momentum, self.factor = norm, epsilon, momentum, scale
        self.given = (stride, padding, approximate)

    def normalised(self, x: Any, training: bool) -> Any:
        if self.norm == "fused":
            known = () if training else (self.mean, self.variance)
            x, mean, variance = tf.compat.v1.nn.fused_batch_norm(
                x, self.scale, self.offset, *known, epsilon=self.epsilon, is_training=training
            )
        else:
            mean, variance = tf.nn.moments(x, [0, 1, 2]) if training else self.statistics()
            if self.norm == "tf.nn":
                x = tf.nn.batch_normalization(
                    x, mean, variance, self.offset, self.scale, self.epsilon
                )
            else:
                x = self.scale * ((x - mean) / tf.sqrt(variance + self.epsilon)) + self.offset
            count = len(x) * x.shape[1] * x.shape[2]
            variance = variance * (count / (count - 1))
        if training:
            self.mean.assign_add(self.momentum * (mean - self.mean))
            self.variance.assign_add(self.momentum * (variance - self.variance))
        return x

    def statistics(self) -> tuple[Any, Any]:
        return tf.identity(self.mean), tf.identity(self.variance)

    def __call__(self, x: Any, training: bool = False) -> Any:
        stride, padding, approximate = self.given
        around = [[0, 0], [padding] * 2, [padding] * 2, [0, 0]]
        x = tf.nn.conv2d(x * self.factor, self.kernel1, stride, around)
        x = tf.nn.relu(self.normalised(x, training))
        x = tf.nn.conv2d(x, self.kernel2, 1, "SAME") + self.bias2
        x = tf.nn.max_pool2d(tf.nn.gelu(x, approximate=approximate), 2, 2, "VALID")
        x = tf.reshape(x, (-1, x.shape[1] * x.shape[2] * x.shape[3]))
        x = tf.tanh(tf.matmul(x, self.kernel3) + self.bias3)
        if training:
            x = tf.nn.dropout(x, 0.5)
        return x @ self.kernel4 + self.bias4


def saved() -> Any:
    """Save the network and load it again: its function calls others."""
    module = Images()
    call = tf.function(lambda x: {"result": module(x)})
    spec = tf.TensorSpec((None, 16, 16, 3), tf.float32, "images")
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, {"serve": call.get_concrete_function(spec)})
        return tf.saved_model.load(folder)


class Sequences(tf.Module):
    """A table, products with axes in front of the examples, layer norms, a loop and a branch."""

    def __init__(self, norm: str = "tf.nn", product: str = "matmul", epsilon: float = 1e-5) -> None:
        super().__init__()
        self.table = _variable(20, 8)
        self.dense = [_variable(8, 8), _variable(8)]
        self.scale, self.offset = tf.Variable(tf.ones(8)), tf.Variable(tf.zeros(8))
        self.head = [_variable(4, 8), _variable(4)]
        self.norm, self.product, self.epsilon = norm, product, epsilon

    def multiplied(self, x: Any) -> Any:
        if self.product == "einsum":
            return tf.einsum("nti,io->nto", x, self.dense[0])
        if self.product == "tensordot":
            return tf.tensordot(x, self.dense[0], 1)
        return x @ self.dense[0]

    @tf.function
    def __call__(self, x: Any) -> Any:
        x = tf.gather(self.table, x)
        x = tf.nn.relu(self.multiplied(x) + self.dense[1])
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        if self.norm == "tf.nn":
            x = tf.nn.batch_normalization(x, mean, variance, self.offset, self.scale, self.epsilon)
        elif self.norm == "fused":  # as Keras 2 does, the examples are channels
            rows = tf.reshape(x, [1, -1, 8, 1])
            ones = tf.ones(tf.shape(rows)[1:2])
            rows, _, _ = tf.compat.v1.nn.fused_batch_norm(
                rows, ones, 0.0 * ones, epsilon=self.epsilon, data_format="NCHW"
            )
            x = self.scale * tf.reshape(rows, tf.shape(x)) + self.offset
        else:
            x = (x - mean) / tf.sqrt(variance + self.epsilon) * self.scale + self.offset
        for _ in tf.range(3):
            x = 2.0 * x
        x = x[:, -1] if tf.shape(x)[0] > 1 else x[:, 0]
        return tf.matmul(x, self.head[0], transpose_b=True) + self.head[1]


class Places(tf.Module):
    """The network `Places` of the models of PyTorch."""

    def __init__(self, first: int = 0) -> None:
        super().__init__()
        self.words, self.positions = _variable(20, 8), _variable(24, 8)
        self.head, self.bias, self.first = _variable(8, 4), _variable(4), first

    @tf.function
    def __call__(self, x: Any) -> Any:
        places = tf.gather(self.positions, tf.range(self.first, self.first + tf.shape(x)[1]))
        return (tf.gather(self.words, x) + places) @ self.head + self.bias


class Grouped(tf.Module):
    """The network `Grouped` of the models of PyTorch, whose norm updates its own statistics.

    Its dropout has another name than `tf.nn`, and its last bias is one row.
    """

    def __init__(self, momentum: float = 0.1) -> None:
        super().__init__()
        self.kernel1, self.bias1 = _variable(3, 3, 3, 8), _variable(8)
        self.kernel2, self.bias2 = _variable(3, 3, 2, 8), _variable(8)
        self.scale, self.offset = tf.Variable(tf.ones(8)), tf.Variable(tf.zeros(8))
        self.mean = tf.Variable(tf.zeros(8), trainable=False)
        self.variance = tf.Variable(tf.ones(8), trainable=False)
        self.factor, self.kernel3, self.bias3 = _variable(8), _variable(8, 5), _variable(1, 5)
        self.momentum = momentum

    def normalised(self, x: Any, training: bool) -> Any:
        part = self.momentum if training else 1.0
        x, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            x, self.scale, self.offset, self.mean, self.variance, epsilon=1e-5,
            is_training=training, exponential_avg_factor=part,
        )  # fmt: skip
        if training:
            self.mean.assign(mean)
            self.variance.assign(variance)
        return x

    def __call__(self, x: Any, training: bool = False) -> Any:
        x = tf.nn.conv2d(x, self.kernel1, 1, "VALID") + self.bias1
        y = tf.nn.conv2d(x, self.kernel2, 1, "SAME") + self.bias2
        x = x + self.factor * tf.nn.relu(self.normalised(y, training))
        x = tf.reduce_mean(x, [1, 2])
        if training:
            x = tf.compat.v2.nn.dropout(x, 0.5)
        return x @ self.kernel3 + self.bias3


class Tied(tf.Module):
    """The network `Tied` of the models of PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.kernel, self.bias = _variable(20, 8), _variable(8, 8), _variable(8)

    def __call__(self, x: Any) -> Any:
        x = tf.nn.tanh(tf.gather(self.words, x) @ self.kernel + self.bias)
        return tf.matmul(x, [self.words], transpose_b=True)


class Rows(tf.Module):
    """The network `rows` of the models of JAX."""

    def __init__(self, first: int = 0) -> None:
        super().__init__()
        self.first = first
        self.words, self.positions, self.head = _variable(20, 8), _variable(24, 8), _variable(8, 4)

    def __call__(self, x: Any) -> Any:
        positions = self.positions[self.first : self.first + x.shape[1]]
        return tf.tensordot(tf.gather(self.words, x) + positions, self.head, 1)
