"""The operators, gradients and optimizers of each framework, by the names of the expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from horizont.frameworks import load_adapter
from horizont_textbook.expressions import Backend, Case, Run, Values, run_case
from horizont_textbook.framework_call import Results


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

    def differentiate(run: Run, variables: list[Any]) -> tuple[list[Any], Values]:
        total, values = run([variable.requires_grad_() for variable in variables])
        return torch.autograd.grad(total, variables), values

    def optimizer(
        variables: list[Any], learning_rate: float, momentum: float, nesterov: bool
    ) -> Any:
        sgd = torch.optim.SGD(variables, learning_rate, momentum, nesterov=nesterov)

        def update(gradients: list[Any]) -> list[Any]:
            for variable, gradient in zip(variables, gradients, strict=True):
                variable.grad = gradient
            sgd.step()
            return variables

        return update

    functions = ["sum", "mean", "exp", "sin", "sigmoid", "tanh", "relu"]
    operators = {name: getattr(torch, name) for name in functions} | {
        "leaky_relu": partial(F.leaky_relu, negative_slope=0.125),
        "elu": F.elu,
        "softplus": F.softplus,
        "softmax": partial(torch.softmax, dim=-1),
        "cross_entropy": F.cross_entropy,
        "convolution": F.conv2d,
        "max_pool": F.max_pool2d,
        "average_pool": F.avg_pool2d,
        "batch_norm": lambda x, scale, offset, epsilon: F.batch_norm(
            x, None, None, scale, offset, training=True, eps=epsilon
        ),
        "dropout": F.dropout,
        "recurrent": layer(torch.nn.RNN),
        "lstm": layer(torch.nn.LSTM),
    }

    def to_numpy(tensor: Any) -> Any:
        return tensor.detach().clone().numpy()  # the optimizer updates in place

    return Backend(operators, torch.tensor, to_numpy, differentiate, optimizer)


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

    def batch_norm(x: Any, scale: Any, offset: Any, epsilon: float) -> Any:
        mean, variance = tf.nn.moments(x, axes=[0])
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, epsilon)

    def layer(kind: Any) -> Any:
        def call(x: Any, input_weight: Any, hidden_weight: Any, bias: Any) -> Any:
            built = kind(hidden_weight.shape[1], return_sequences=True, dtype="float64")
            built.build(x.shape)
            weights = [tf.transpose(input_weight), tf.transpose(hidden_weight), bias]
            return built.stateless_call(weights, built.non_trainable_variables, x)[0]

        return call

    def differentiate(run: Run, variables: list[Any]) -> tuple[list[Any], Values]:
        with tf.GradientTape() as tape:
            tape.watch(variables)
            total, values = run(variables)
        return tape.gradient(total, variables), values

    def optimizer(
        variables: list[Any], learning_rate: float, momentum: float, nesterov: bool
    ) -> Any:
        own = [keras.Variable(variable, dtype="float64") for variable in variables]
        sgd = keras.optimizers.SGD(learning_rate, momentum, nesterov)  # in float32

        def update(gradients: list[Any]) -> list[Any]:
            sgd.apply(gradients, own)
            return [tf.convert_to_tensor(variable.value) for variable in own]

        return update

    functions = ["sigmoid", "tanh", "relu", "elu", "softplus", "softmax"]
    operators = {
        **{"sum": tf.reduce_sum, "mean": tf.reduce_mean, "exp": tf.exp, "sin": tf.sin},
        **{name: getattr(tf.nn, name) for name in functions},
        "leaky_relu": partial(tf.nn.leaky_relu, alpha=0.125),
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
    return Backend(operators, tf.constant, np.array, differentiate, optimizer)


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

    def batch_norm(x: Any, scale: Any, offset: Any, epsilon: float) -> Any:
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

    def differentiate(run: Run, variables: list[Any]) -> tuple[list[Any], Values]:
        for variable in variables:
            variable.attach_grad()
        with mx.autograd.record():
            total, values = run(variables)
        total.backward()
        return [variable.grad.copy() for variable in variables], values

    def optimizer(
        variables: list[Any], learning_rate: float, momentum: float, nesterov: bool
    ) -> Any:
        kind = mx.optimizer.NAG if nesterov else mx.optimizer.SGD
        update_one = mx.optimizer.get_updater(
            kind(learning_rate=learning_rate, momentum=momentum, wd=0.0)
        )

        def update(gradients: list[Any]) -> list[Any]:
            for number, variable in enumerate(variables):
                update_one(number, gradients[number], variable)
            return variables

        return update

    functions = ["sum", "mean", "exp", "sin", "sigmoid", "tanh", "relu", "softmax"]
    operators = {name: getattr(mx.nd, name) for name in functions} | {
        # MXNet's own operator, LeakyReLU, rounds its values to float32.
        "leaky_relu": lambda x: mx.nd.where(x > 0, x, 0.125 * x),
        "elu": partial(mx.nd.LeakyReLU, act_type="elu", slope=1.0),
        "softplus": partial(mx.nd.Activation, act_type="softrelu"),
        "cross_entropy": lambda scores, labels: mx.gluon.loss.SoftmaxCrossEntropyLoss()(
            scores, labels
        ).mean(),
        "convolution": convolution,
        "max_pool": pool("max"),
        "average_pool": pool("avg"),
        "batch_norm": batch_norm,
        "dropout": mx.nd.Dropout,
        "recurrent": layer("rnn_tanh"),
        "lstm": layer("lstm"),
    }

    def array(value: Any) -> Any:
        return mx.nd.array(np.atleast_1d(value), dtype=value.dtype)

    return Backend(operators, array, mx.nd.NDArray.asnumpy, differentiate, optimizer)


def jax_backend() -> Backend:
    """Return JAX: ``jax.numpy``, ``jax.grad``, optax."""
    import jax
    import jax.numpy as jnp
    import optax
    from jax import lax

    jax.config.update("jax_enable_x64", True)

    def convolution(x: Any, w: Any, stride: int = 1, padding: int = 0) -> Any:
        return lax.conv_general_dilated(x, w, (stride,) * 2, [(padding,) * 2] * 2)

    def pool(x: Any, size: int, stride: int, start: float, reduce: Any) -> Any:
        return lax.reduce_window(
            x, start, reduce, (1, 1, size, size), (1, 1, stride, stride), "VALID"
        )

    def batch_norm(x: Any, scale: Any, offset: Any, epsilon: float) -> Any:
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

    @cache  # compiled once for all steps of an optimizer
    def compiled(run: Run) -> Any:
        return jax.jit(jax.grad(run, has_aux=True))

    def differentiate(run: Run, variables: list[Any]) -> tuple[list[Any], Values]:
        return compiled(run)(variables)

    def optimizer(
        variables: list[Any], learning_rate: float, momentum: float, nesterov: bool
    ) -> Any:
        sgd = optax.sgd(learning_rate, momentum or None, nesterov)
        state = sgd.init(variables)

        def update(gradients: list[Any]) -> list[Any]:
            nonlocal state, variables
            changes, state = sgd.update(gradients, state)
            variables = optax.apply_updates(variables, changes)
            return variables

        return update

    operators = {
        **{name: getattr(jnp, name) for name in ("sum", "mean", "exp", "sin", "tanh")},
        **{name: getattr(jax.nn, name) for name in ("sigmoid", "relu", "elu", "softplus")},
        # At 0, the derivative of JAX's own leaky_relu is 1.
        "leaky_relu": lambda x: jnp.where(x > 0, x, 0.125 * x),
        "softmax": jax.nn.softmax,
        "cross_entropy": lambda scores, labels: optax.softmax_cross_entropy_with_integer_labels(
            scores, labels
        ).mean(),
        "convolution": convolution,
        "max_pool": partial(pool, start=-np.inf, reduce=lax.max),
        "average_pool": lambda x, size, stride: pool(x, size, stride, 0.0, lax.add) / size**2,
        "batch_norm": batch_norm,
        "dropout": dropout,
        "recurrent": layer(lambda state, sums: (jnp.tanh(sums), state[1])),
        "lstm": layer(lstm_cell),
    }
    return Backend(operators, jnp.asarray, np.array, differentiate, optimizer)


#: By the names of the registry.
BACKENDS: dict[str, Callable[[], Backend]] = {
    "tensorflow": tensorflow_backend,
    "pytorch": torch_backend,
    "mxnet": mxnet_backend,
    "jax": jax_backend,
}


def run_cases(framework: str, cases: Sequence[Mapping[str, Any]]) -> Results:
    """Return the arrays of all cases; of a `Case`, JSON has the fields, and lists for arrays."""
    load_adapter(framework).configure(1)
    backend = BACKENDS[framework]()
    results: Results = {}
    for fields in cases:
        inputs = {name: np.asarray(value) for name, value in fields["inputs"].items()}
        case = Case(**{**fields, "inputs": inputs})
        results |= {f"{case.name}|{key}": value for key, value in run_case(backend, case).items()}
    return results
