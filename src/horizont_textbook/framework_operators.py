"""The operators, gradients and optimizers of each framework, by the names of the expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from horizont_textbook.expressions import Backend


def torch_backend() -> Backend:
    """Return PyTorch: eager operators, ``torch.autograd``, ``torch.optim``."""
    import torch
    from torch.nn import functional as F

    def layer(kind: Any) -> Any:
        def call(x: Any, input_weight: Any, hidden_weight: Any, bias: Any) -> Any:
            module = kind(x.shape[2], hidden_weight.shape[1], batch_first=True, dtype=x.dtype)
            weights = (input_weight, hidden_weight, bias, torch.zeros_like(bias))
            named = dict(zip(dict(module.named_parameters()), weights, strict=True))
            return torch.func.functional_call(module, named, (x,))[0]

        return call

    def differentiate(run: Any, variables: list[Any]) -> tuple[dict[str, Any], Any]:
        values = run()
        return values, torch.autograd.grad(list(values.values())[-1].sum(), variables)

    def optimizer(settings: Mapping[str, Any], variables: list[Any]) -> Callable[[Any], None]:
        rate, momentum = settings["learning_rate"], settings["momentum"]
        sgd = torch.optim.SGD(variables, rate, momentum, nesterov=settings["nesterov"])

        def update(gradients: Any) -> None:
            for variable, gradient in zip(variables, gradients, strict=True):
                variable.grad = gradient
            sgd.step()

        return update

    functions = ["sum", "mean", "exp", "sin", "sigmoid", "tanh", "relu"]
    operators = {name: getattr(torch, name) for name in functions} | {
        "leaky_relu": lambda x, slope=0.125: F.leaky_relu(x, slope),
        "elu": F.elu,
        "softplus": F.softplus,
        "softmax": lambda x: torch.softmax(x, dim=-1),
        "cross_entropy": F.cross_entropy,
        "convolution": lambda x, w, stride=1, padding=0: F.conv2d(x, w, None, stride, padding),
        "max_pool": F.max_pool2d,
        "average_pool": F.avg_pool2d,
        "batch_norm": lambda x, scale, offset, epsilon=1e-5: F.batch_norm(
            x, None, None, scale, offset, training=True, eps=epsilon
        ),
        "dropout": F.dropout,
        "recurrent": layer(torch.nn.RNN),
        "lstm": layer(torch.nn.LSTM),
    }

    return Backend(
        operators,
        lambda value: torch.tensor(value, requires_grad=value.dtype == np.float64),
        lambda tensor: tensor.detach().clone().numpy(),
        differentiate,
        optimizer,
    )


def tensorflow_backend() -> Backend:
    """Return TensorFlow: its operators, ``tf.GradientTape``, layers and optimizers of Keras."""
    import keras
    import tensorflow as tf

    # TensorFlow on processors has channels last only.
    last, first = partial(tf.transpose, perm=(0, 2, 3, 1)), partial(tf.transpose, perm=(0, 3, 1, 2))

    def convolution(x: Any, w: Any, stride: int = 1, padding: int = 0) -> Any:
        padded = tf.pad(last(x), [[0, 0], [padding] * 2, [padding] * 2, [0, 0]])
        return first(tf.nn.conv2d(padded, tf.transpose(w, (2, 3, 1, 0)), stride, "VALID"))

    def pool(function: Any) -> Any:
        return lambda x, size, stride: first(function(last(x), size, stride, "VALID"))

    def batch_norm(x: Any, scale: Any, offset: Any, epsilon: float = 1e-5) -> Any:
        mean, variance = tf.nn.moments(x, axes=[0])
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, epsilon)

    def layer(kind: Any) -> Any:
        def call(x: Any, input_weight: Any, hidden_weight: Any, bias: Any) -> Any:
            built = kind(hidden_weight.shape[1], return_sequences=True, dtype="float64")
            built.build(x.shape)
            weights = [tf.transpose(input_weight), tf.transpose(hidden_weight), bias]
            return built.stateless_call(weights, built.non_trainable_variables, x)[0]

        return call

    def differentiate(run: Any, variables: list[Any]) -> tuple[dict[str, Any], Any]:
        with tf.GradientTape() as tape:
            values = run()
        return values, tape.gradient(list(values.values())[-1], [v.value for v in variables])

    def optimizer(settings: Mapping[str, Any], variables: list[Any]) -> Callable[[Any], None]:
        rate, momentum = settings["learning_rate"], settings["momentum"]  # Keras: in float32
        sgd = keras.optimizers.SGD(rate, momentum, settings["nesterov"])
        return lambda gradients: sgd.apply(gradients, variables)

    functions = ["sigmoid", "tanh", "relu", "elu", "softplus", "softmax"]
    operators = {
        **{"sum": tf.reduce_sum, "mean": tf.reduce_mean, "exp": tf.exp, "sin": tf.sin},
        **{name: getattr(tf.nn, name) for name in functions},
        "leaky_relu": lambda x, slope=0.125: tf.nn.leaky_relu(x, slope),
        "cross_entropy": lambda scores, labels: tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
        ),
        "convolution": convolution,
        "max_pool": pool(tf.nn.max_pool2d),
        "average_pool": pool(tf.nn.avg_pool2d),
        "batch_norm": batch_norm,
        "dropout": tf.nn.dropout,
        "recurrent": layer(keras.layers.SimpleRNN),
        "lstm": layer(keras.layers.LSTM),
    }

    def variable(value: Any) -> Any:
        if value.dtype != np.float64:
            return tf.constant(value)
        return keras.Variable(value, dtype="float64")

    def read(variable: Any) -> Any:
        return tf.convert_to_tensor(getattr(variable, "value", variable))

    return Backend(operators, variable, np.array, differentiate, optimizer, read)


def mxnet_backend() -> Backend:
    """Return MXNet: ``mx.nd``, ``mx.autograd``, ``mx.optimizer``; its scalars are arrays of one."""
    import mxnet as mx

    mx.nd.NDArray.__matmul__ = mx.nd.dot

    def convolution(x: Any, w: Any, stride: int = 1, padding: int = 0) -> Any:
        sizes = {"kernel": w.shape[2:], "stride": (stride,) * 2, "pad": (padding,) * 2}
        return mx.nd.Convolution(x, w, no_bias=True, num_filter=w.shape[0], **sizes)

    def pool(kind: str) -> Any:
        return lambda x, size, stride: mx.nd.Pooling(
            x, kernel=(size,) * 2, stride=(stride,) * 2, pool_type=kind
        )

    def batch_norm(x: Any, scale: Any, offset: Any, epsilon: float = 1e-5) -> Any:
        running = mx.nd.zeros_like(scale), mx.nd.ones_like(scale)
        return mx.nd.BatchNorm(x, scale, offset, *running, fix_gamma=False, eps=epsilon)

    def layer(mode: str) -> Any:
        # The fused operator has time steps first, all weights in a row, and a second bias.
        def call(x: Any, input_weight: Any, hidden_weight: Any, bias: Any) -> Any:
            units = hidden_weight.shape[1]
            weights = [input_weight, hidden_weight, bias, mx.nd.zeros_like(bias)]
            row = mx.nd.concat(*(weight.reshape((-1,)) for weight in weights), dim=0)
            states = [mx.nd.zeros((1, x.shape[0], units), dtype="float64")]
            states *= 2 if mode == "lstm" else 1
            kind = {"state_size": units, "num_layers": 1, "mode": mode}
            return mx.nd.swapaxes(mx.nd.RNN(mx.nd.swapaxes(x, 0, 1), row, *states, **kind), 0, 1)

        return call

    def differentiate(run: Any, variables: list[Any]) -> tuple[dict[str, Any], Any]:
        for each in variables:
            each.attach_grad()
        with mx.autograd.record():
            values = run()
        list(values.values())[-1].backward()
        return values, [each.grad.copy() for each in variables]

    def optimizer(settings: Mapping[str, Any], variables: list[Any]) -> Callable[[Any], None]:
        kind = mx.optimizer.NAG if settings["nesterov"] else mx.optimizer.SGD
        rate, momentum = settings["learning_rate"], settings["momentum"]
        update = mx.optimizer.get_updater(kind(learning_rate=rate, momentum=momentum, wd=0.0))

        def update_all(gradients: Any) -> None:
            for number, variable in enumerate(variables):
                update(number, gradients[number], variable)

        return update_all

    functions = ["sum", "mean", "exp", "sin", "sigmoid", "tanh", "relu", "softmax"]
    operators = {name: getattr(mx.nd, name) for name in functions} | {
        # MXNet's own operator, LeakyReLU, rounds its values to float32.
        "leaky_relu": lambda x, slope=0.125: mx.nd.where(x > 0, x, slope * x),
        "elu": lambda x: mx.nd.LeakyReLU(x, act_type="elu", slope=1.0),
        "softplus": lambda x: mx.nd.Activation(x, act_type="softrelu"),
        "cross_entropy": lambda scores, labels: mx.gluon.loss.SoftmaxCrossEntropyLoss()(
            scores, labels
        ).mean(),
        "convolution": convolution,
        "max_pool": pool("max"),
        "average_pool": pool("avg"),
        "batch_norm": batch_norm,
        "dropout": lambda x, rate: mx.nd.Dropout(x, p=rate),
        "recurrent": layer("rnn_tanh"),
        "lstm": layer("lstm"),
    }

    return Backend(
        operators,
        lambda value: mx.nd.array(np.atleast_1d(value), dtype=value.dtype),
        lambda array: array.asnumpy(),
        differentiate,
        optimizer,
    )


def jax_backend() -> Backend:
    """Return JAX: ``jax.numpy``, ``jax.grad``, optax; a variable is a place for an array."""
    import jax
    import jax.numpy as jnp
    import optax
    from jax import lax

    jax.config.update("jax_enable_x64", True)

    class Variable:
        def __init__(self, value: Any) -> None:
            self.value = jnp.asarray(value)

    def convolution(x: Any, w: Any, stride: int = 1, padding: int = 0) -> Any:
        return lax.conv_general_dilated(x, w, (stride,) * 2, [(padding,) * 2] * 2)

    def pool(x: Any, size: int, stride: int, start: float, reduce: Any) -> Any:
        return lax.reduce_window(
            x, start, reduce, (1, 1, size, size), (1, 1, stride, stride), "VALID"
        )

    def batch_norm(x: Any, scale: Any, offset: Any, epsilon: float = 1e-5) -> Any:
        normed = jax.nn.standardize(x, axis=0, variance=x.var(axis=0), epsilon=epsilon)
        return scale * normed + offset

    def dropout(x: Any, rate: float) -> Any:
        is_drawn = jax.random.bernoulli(jax.random.key(0), 1 - rate, x.shape)
        return jnp.where(is_drawn, x / (1 - rate), 0)

    def layer(cell: Any) -> Any:
        def call(x: Any, input_weight: Any, hidden_weight: Any, bias: Any) -> Any:
            def step(state: Any, projected: Any) -> Any:
                state = cell(state, projected + state[0] @ hidden_weight.T)
                return state, state[0]

            zeros = jnp.zeros((x.shape[0], hidden_weight.shape[1]))
            projected = (x @ input_weight.T + bias).swapaxes(0, 1)
            return lax.scan(step, (zeros, zeros), projected)[1].swapaxes(0, 1)

        return call

    def lstm_cell(state: Any, gates: Any) -> Any:
        entry, forget, candidate, output = jnp.split(gates, 4, axis=-1)
        memory = jax.nn.sigmoid(forget) * state[1] + jax.nn.sigmoid(entry) * jnp.tanh(candidate)
        return jax.nn.sigmoid(output) * jnp.tanh(memory), memory

    programs: dict[Any, Any] = {}  # compiled once for all steps of an optimizer
    names: dict[Any, list[str]] = {}

    def differentiate(run: Any, variables: list[Any]) -> tuple[dict[str, Any], Any]:
        def total(arrays: Any) -> Any:
            for variable, array in zip(variables, arrays, strict=True):
                variable.value = array
            values = run()
            names[run] = list(values)  # JAX returns a dictionary in the order of its names
            return list(values.values())[-1].sum(), list(values.values())

        start = [variable.value for variable in variables]
        program = programs.setdefault(run, jax.jit(jax.grad(total, has_aux=True)))
        gradients, values = program(start)
        for variable, array in zip(variables, start, strict=True):
            variable.value = array
        return dict(zip(names[run], values, strict=True)), gradients

    def optimizer(settings: Mapping[str, Any], variables: list[Any]) -> Callable[[Any], None]:
        rate, momentum = settings["learning_rate"], settings["momentum"]
        sgd = optax.sgd(rate, momentum or None, settings["nesterov"])
        state = sgd.init([variable.value for variable in variables])

        def update(gradients: Any) -> None:
            nonlocal state
            updates, state = sgd.update(gradients, state)
            for variable, change in zip(variables, updates, strict=True):
                variable.value = variable.value + change

        return update

    operators = {
        **{name: getattr(jnp, name) for name in ("sum", "mean", "exp", "sin", "tanh")},
        **{name: getattr(jax.nn, name) for name in ("sigmoid", "relu", "elu", "softplus")},
        # At 0, the derivative of JAX's own leaky_relu is 1.
        "leaky_relu": lambda x, slope=0.125: jnp.where(x > 0, x, slope * x),
        "softmax": jax.nn.softmax,
        "cross_entropy": lambda scores, labels: optax.softmax_cross_entropy_with_integer_labels(
            scores, labels
        ).mean(),
        "convolution": convolution,
        "max_pool": lambda x, size, stride: pool(x, size, stride, -np.inf, lax.max),
        "average_pool": lambda x, size, stride: pool(x, size, stride, 0.0, lax.add) / size**2,
        "batch_norm": batch_norm,
        "dropout": dropout,
        "recurrent": layer(lambda state, sums: (jnp.tanh(sums), state[1])),
        "lstm": layer(lstm_cell),
    }

    return Backend(
        operators,
        Variable,
        lambda value: np.array(value.value if isinstance(value, Variable) else value),
        differentiate,
        optimizer,
        lambda variable: variable.value,
    )


#: By the names of the registry.
BACKENDS = {
    "tensorflow": tensorflow_backend,
    "pytorch": torch_backend,
    "mxnet": mxnet_backend,
    "jax": jax_backend,
}
