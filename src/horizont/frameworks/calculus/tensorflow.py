"""TensorFlow as a calculator: its operations, ``tf.GradientTape``, Keras' layers and optimizers."""

from __future__ import annotations

import operator
from typing import Any

import keras
import tensorflow as tf
from numpy.typing import NDArray

from horizont.frameworks.calculus.base import Late, Operations, evaluate
from horizont.theory.formula import Formula
from horizont.theory.questions import Question


def _convolution(x: Any, w: Any, stride: int = 1, padding: int = 0) -> Any:
    """Lay the channels last, which is the only layout that TensorFlow has on processors."""
    around = [[0, 0], [padding] * 2, [padding] * 2, [0, 0]]
    images = tf.pad(tf.transpose(x, (0, 2, 3, 1)), around)
    return _first(tf.nn.conv2d(images, tf.transpose(w, (2, 3, 1, 0)), stride, "VALID"))


def _pool(kind: Any) -> Any:
    def call(x: Any, size: int = 2, stride: int = 2) -> Any:
        return _first(kind(tf.transpose(x, (0, 2, 3, 1)), size, stride, "VALID"))

    return call


def _first(images: Any) -> Any:
    """Lay the channels first."""
    return tf.transpose(images, (0, 3, 1, 2))


def _batch_norm(values: Any, scale: Any, offset: Any, epsilon: float = 1e-5) -> Any:
    mean, variance = tf.nn.moments(values, axes=[0])
    return tf.nn.batch_normalization(values, mean, variance, offset, scale, epsilon)


def _cross_entropy(scores: Any, labels: Any) -> Any:
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
    return tf.reduce_mean(losses)


def _sequence(kind: Any, **about: Any) -> Any:
    """Call a recurrent layer with given weights, which Keras keeps transposed."""

    def call(x: Any, input_weight: Any, hidden_weight: Any, bias: Any) -> Any:
        layer = kind(hidden_weight.shape[1], return_sequences=True, dtype="float64", **about)
        layer.build(x.shape)
        weights = [tf.transpose(input_weight), tf.transpose(hidden_weight), bias]
        return layer.stateless_call(weights, layer.non_trainable_variables, x)[0]

    return call


OPERATIONS: Operations = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "matmul": tf.matmul,
    "sum": tf.reduce_sum,
    "mean": tf.reduce_mean,
    "exp": tf.exp,
    "log": tf.math.log,
    "sin": tf.sin,
    "sigmoid": tf.sigmoid,
    "tanh": tf.tanh,
    "relu": tf.nn.relu,
    "leaky_relu": lambda x, slope=0.125: tf.nn.leaky_relu(x, slope),
    "elu": tf.nn.elu,
    "softplus": tf.nn.softplus,
    "softmax": tf.nn.softmax,
    "cross_entropy": _cross_entropy,
    "convolution": _convolution,
    "max_pool": _pool(tf.nn.max_pool2d),
    "average_pool": _pool(tf.nn.avg_pool2d),
    "batch_norm": _batch_norm,
    "dropout": tf.nn.dropout,
    "recurrent": _sequence(keras.layers.SimpleRNN),
    "lstm": _sequence(keras.layers.LSTM),
}


class TensorFlowCalculator:
    """TensorFlow."""

    def gradients(
        self, formula: Formula, question: Question
    ) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Compute all nodes under a tape and play it back."""
        given = {name: tf.constant(value) for name, value in question.given.items()}
        sources = [given[name] for name in question.by]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            values = evaluate(formula, OPERATIONS, given)
        slopes = tape.gradient(values[formula.result], sources)
        named = {name: value.numpy() for name, value in values.items()}
        return named, {n: s.numpy() for n, s in zip(question.by, slopes, strict=True)}

    def descent(self, formula: Formula, question: Question) -> dict[str, NDArray[Any]]:
        """Move by ``keras.optimizers.SGD``, which keeps its settings in float32."""
        assert question.rule
        given = {name: tf.constant(value) for name, value in question.given.items()}
        moved = [keras.Variable(given[name], dtype="float64") for name in question.by]
        rule = question.rule
        optimizer = keras.optimizers.SGD(rule.learning_rate, rule.momentum, rule.nesterov)
        ways = [[weight.numpy()] for weight in moved]
        late = Late(rule.delay)
        for _ in range(question.steps):
            with tf.GradientTape() as tape:
                now = {**given, **dict(zip(question.by, (w.value for w in moved), strict=True))}
                tape.watch([now[name] for name in question.by])
                result = evaluate(formula, OPERATIONS, now)[formula.result]
            slopes = tape.gradient(result, [now[name] for name in question.by])
            optimizer.apply(late(slopes), moved)
            for way, weight in zip(ways, moved, strict=True):
                way.append(weight.numpy())
        stacked = (tf.stack(way).numpy() for way in ways)
        return dict(zip(question.by, stacked, strict=True))


CALCULATOR = TensorFlowCalculator()
