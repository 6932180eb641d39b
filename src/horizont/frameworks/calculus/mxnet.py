"""MXNet as a calculator: ``mx.nd``, ``mx.autograd``, ``mx.optimizer``."""

from __future__ import annotations

import operator
from typing import Any

import mxnet as mx
import numpy as np
from numpy.typing import NDArray

from horizont.frameworks.calculus.base import Late, Operations, evaluate
from horizont.theory.formula import Formula
from horizont.theory.questions import Question


def _convolution(x: Any, w: Any, stride: int = 1, padding: int = 0) -> Any:
    out, _, *kernel = w.shape
    sides = {"kernel": tuple(kernel), "stride": (stride,) * 2, "pad": (padding,) * 2}
    return mx.nd.Convolution(x, w, no_bias=True, num_filter=out, **sides)


def _pool(kind: str) -> Any:
    def call(x: Any, size: int = 2, stride: int = 2) -> Any:
        return mx.nd.Pooling(x, kernel=(size,) * 2, stride=(stride,) * 2, pool_type=kind)

    return call


def _batch_norm(values: Any, scale: Any, offset: Any, epsilon: float = 1e-5) -> Any:
    tracked = mx.nd.zeros_like(scale), mx.nd.ones_like(scale)
    return mx.nd.BatchNorm(values, scale, offset, *tracked, fix_gamma=False, eps=epsilon)


def _cross_entropy(scores: Any, labels: Any) -> Any:
    return mx.gluon.loss.SoftmaxCrossEntropyLoss()(scores, labels).mean()


def _sequence(mode: str) -> Any:
    """Call the fused operator: time steps first, all weights in a row, the second bias zero."""

    def call(x: Any, input_weight: Any, hidden_weight: Any, bias: Any) -> Any:
        units = hidden_weight.shape[1]
        weights = [input_weight, hidden_weight, bias, mx.nd.zeros_like(bias)]
        row = mx.nd.concat(*(weight.reshape((-1,)) for weight in weights), dim=0)
        states = [mx.nd.zeros((1, x.shape[0], units), dtype="float64")]
        states *= 2 if mode == "lstm" else 1
        along = mx.nd.swapaxes(x, 0, 1)
        found = mx.nd.RNN(along, row, *states, state_size=units, num_layers=1, mode=mode)
        return mx.nd.swapaxes(found, 0, 1)

    return call


OPERATIONS: Operations = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "matmul": mx.nd.dot,
    "sum": mx.nd.sum,
    "mean": mx.nd.mean,
    "exp": mx.nd.exp,
    "log": mx.nd.log,
    "sin": mx.nd.sin,
    "sigmoid": mx.nd.sigmoid,
    "tanh": mx.nd.tanh,
    "relu": mx.nd.relu,
    # MXNet's own operator, LeakyReLU, rounds the values of this kind to float32.
    "leaky_relu": lambda x, slope=0.125: mx.nd.where(x > 0, x, slope * x),
    "elu": lambda x: mx.nd.LeakyReLU(x, act_type="elu", slope=1.0),
    "softplus": lambda x: mx.nd.Activation(x, act_type="softrelu"),
    "softmax": mx.nd.softmax,
    "cross_entropy": _cross_entropy,
    "convolution": _convolution,
    "max_pool": _pool("max"),
    "average_pool": _pool("avg"),
    "batch_norm": _batch_norm,
    "dropout": lambda x, rate: mx.nd.Dropout(x, p=rate),
    "recurrent": _sequence("rnn_tanh"),
    "lstm": _sequence("lstm"),
}


class MXNetCalculator:
    """MXNet, which knows no arrays without axes: a single number is a row of one."""

    def gradients(
        self, formula: Formula, question: Question
    ) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Record all nodes and go back from the result."""
        given = _arrays(question)
        for name in question.by:
            given[name].attach_grad()
        with mx.autograd.record():
            values = evaluate(formula, OPERATIONS, given)
        if question.by:
            values[formula.result].backward()
        slopes = {name: given[name].grad.asnumpy() for name in question.by}
        return {name: value.asnumpy() for name, value in values.items()}, slopes

    def descent(self, formula: Formula, question: Question) -> dict[str, NDArray[Any]]:
        """Move by ``mx.optimizer.SGD`` or ``NAG``, which keep their settings in float32."""
        assert question.rule
        given = _arrays(question)
        rule = question.rule
        kind = mx.optimizer.NAG if rule.nesterov else mx.optimizer.SGD
        update = mx.optimizer.get_updater(
            kind(learning_rate=rule.learning_rate, momentum=rule.momentum, wd=0.0)
        )
        for name in question.by:
            given[name].attach_grad()
        ways = {name: [given[name].asnumpy()] for name in question.by}
        late = Late(rule.delay)
        for _ in range(question.steps):
            with mx.autograd.record():
                result = evaluate(formula, OPERATIONS, given)[formula.result]
            result.backward()
            due = late([given[name].grad.copy() for name in question.by])
            for place, name in enumerate(question.by):
                update(place, due[place], given[name])
                ways[name].append(given[name].asnumpy())
        return {name: np.stack(way) for name, way in ways.items()}


def _arrays(question: Question) -> dict[str, Any]:
    return {
        name: mx.nd.array(np.atleast_1d(value), dtype=value.dtype)
        for name, value in question.given.items()
    }


CALCULATOR = MXNetCalculator()
