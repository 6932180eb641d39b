"""Evaluates and differentiates the expressions of the cross-check in the process of a framework."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from horizont.frameworks import load_adapter
from horizont_textbook.framework_call import Results


@dataclass(frozen=True)
class Case:
    """An expression that NumPy and every framework evaluate.

    Attributes
    ----------
    expression
        Lines of assignments; the last one is the result.
    inputs
        float64, or integers for labels.
    by
        The inputs by which the sum of the result is differentiated; none means all but labels.
    optimizer, steps
        If there are settings of `Momentum`: these inputs are updated that many times.
    random
        Whether each framework draws random numbers of its own, so that results differ.
    """

    name: str
    expression: str
    inputs: Mapping[str, Any]
    by: tuple[str, ...] = ()
    optimizer: Mapping[str, Any] | None = None
    steps: int = 0
    random: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        """The inputs by which the sum of the result is differentiated."""
        return self.by or tuple(n for n, v in self.inputs.items() if v.dtype == np.float64)


@dataclass(frozen=True)
class Backend:
    """A framework behind one interface.

    `differentiate` calls a function that evaluates a case, and returns its values and the
    gradients of the sum of the last one; `optimizer` returns a function that updates variables.
    """

    operators: Mapping[str, Callable[..., Any]]
    variable: Callable[[Any], Any]
    to_numpy: Callable[[Any], Any]
    differentiate: Callable[[Callable[[], dict[str, Any]], list[Any]], tuple[dict[str, Any], Any]]
    optimizer: Callable[[Mapping[str, Any], list[Any]], Callable[[Any], None]]
    read: Callable[[Any], Any] = lambda variable: variable


def evaluate(
    expression: str, operators: Mapping[str, Any], inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of all assignments, the result last."""
    values = dict(inputs)
    exec(expression, {"__builtins__": {}, **operators}, values)
    return {name: value for name, value in values.items() if name not in inputs}


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


#: By the names of the registry.
BACKENDS = {"tensorflow": tensorflow_backend, "pytorch": torch_backend, "mxnet": mxnet_backend}


def run_case(backend: Backend, case: Case) -> dict[str, Any]:
    """Return values and gradients of a case, or the paths of its optimizer."""
    inputs = {name: backend.variable(np.asarray(v)) for name, v in case.inputs.items()}
    variables = [inputs[name] for name in case.variables]

    def run() -> dict[str, Any]:
        tensors = {name: backend.read(value) for name, value in inputs.items()}
        return evaluate(case.expression, backend.operators, tensors)

    if case.optimizer is None:
        values, gradients = backend.differentiate(run, variables)
        named = zip(case.variables, gradients, strict=True)
        values |= {f"d{list(values)[-1]}/d{name}": gradient for name, gradient in named}
        return {name: backend.to_numpy(value) for name, value in values.items()}
    # No optimizer has a delay: gradients wait in a queue, at first the oldest one is repeated.
    queue: deque[Any] = deque(maxlen=case.optimizer["delay"] + 1)
    update = backend.optimizer(case.optimizer, variables)
    path = [[backend.to_numpy(variable) for variable in variables]]
    for _ in range(case.steps):
        queue.append(backend.differentiate(run, variables)[1])
        update(queue[0])
        path.append([backend.to_numpy(variable) for variable in variables])
    points = zip(case.variables, zip(*path, strict=True), strict=True)
    return {f"path of {name}": np.stack(values) for name, values in points}


def run_cases(framework: str, cases: Sequence[Mapping[str, Any]]) -> Results:
    """Return the arrays of all cases; of a `Case`, JSON has the fields, and lists for arrays."""
    load_adapter(framework).configure(1)
    backend = BACKENDS[framework]()
    results: Results = {}
    for fields in cases:
        inputs = {name: np.asarray(value) for name, value in fields["inputs"].items()}
        case = Case(**{**fields, "inputs": inputs, "by": tuple(fields["by"])})
        results[case.name] = run_case(backend, case)
    return results
