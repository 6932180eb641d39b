"""PyTorch as a calculator: eager operations, ``torch.autograd``, ``torch.optim``."""

from __future__ import annotations

import operator
from typing import Any, cast

import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from horizont.frameworks.calculus.base import Late, Operations, evaluate
from horizont.theory.formula import Formula
from horizont.theory.questions import Question


def _sequence(kind: type[torch.nn.RNN] | type[torch.nn.LSTM]) -> Any:
    """Call a recurrent module with given weights; its second bias is zero."""

    def call(x: Any, input_weight: Any, hidden_weight: Any, bias: Any) -> Any:
        units = hidden_weight.shape[1]
        module = kind(x.shape[2], units, batch_first=True, dtype=x.dtype)
        weights = {
            "weight_ih_l0": input_weight,
            "weight_hh_l0": hidden_weight,
            "bias_ih_l0": bias,
            "bias_hh_l0": torch.zeros_like(bias),
        }
        return torch.func.functional_call(module, weights, (x,))[0]

    return call


def _batch_norm(values: Any, scale: Any, offset: Any, epsilon: float = 1e-5) -> Any:
    return F.batch_norm(values, None, None, scale, offset, training=True, eps=epsilon)


def _dropout(values: Any, rate: float) -> Any:
    return F.dropout(values, rate)


OPERATIONS: Operations = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "matmul": torch.matmul,
    "sum": torch.sum,
    "mean": torch.mean,
    "exp": torch.exp,
    "log": torch.log,
    "sin": torch.sin,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "leaky_relu": lambda x, slope=0.125: F.leaky_relu(x, slope),
    "elu": F.elu,
    "softplus": F.softplus,
    "softmax": lambda x: torch.softmax(x, dim=-1),
    "cross_entropy": F.cross_entropy,
    "convolution": lambda x, w, stride=1, padding=0: F.conv2d(x, w, None, stride, padding),
    "max_pool": lambda x, size=2, stride=2: F.max_pool2d(x, size, stride),
    "average_pool": lambda x, size=2, stride=2: F.avg_pool2d(x, size, stride),
    "batch_norm": _batch_norm,
    "dropout": _dropout,
    "recurrent": _sequence(torch.nn.RNN),
    "lstm": _sequence(torch.nn.LSTM),
}


class TorchCalculator:
    """PyTorch."""

    def gradients(
        self, formula: Formula, question: Question
    ) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Compute all nodes and go back from the result."""
        given = {name: torch.from_numpy(value.copy()) for name, value in question.given.items()}
        for name in question.by:
            given[name].requires_grad_()
        values = evaluate(formula, OPERATIONS, given)
        if question.by:
            values[formula.result].sum().backward()
        slopes = {name: cast(torch.Tensor, given[name].grad).numpy() for name in question.by}
        return {name: value.detach().numpy() for name, value in values.items()}, slopes

    def descent(self, formula: Formula, question: Question) -> dict[str, NDArray[Any]]:
        """Move by ``torch.optim.SGD``."""
        assert question.rule
        given = {name: torch.from_numpy(value.copy()) for name, value in question.given.items()}
        moved = [given[name].requires_grad_() for name in question.by]
        rule = question.rule
        optimizer = torch.optim.SGD(
            moved, rule.learning_rate, momentum=rule.momentum, nesterov=rule.nesterov
        )
        ways = [[weight.detach().clone()] for weight in moved]
        late = Late(question.rule.delay)
        for _ in range(question.steps):
            optimizer.zero_grad()
            evaluate(formula, OPERATIONS, given)[formula.result].sum().backward()
            due = late([weight.grad for weight in moved])
            for weight, gradient in zip(moved, due, strict=True):
                weight.grad = gradient
            optimizer.step()
            for way, weight in zip(ways, moved, strict=True):
                way.append(weight.detach().clone())
        stacked = (torch.stack(way).numpy() for way in ways)
        return dict(zip(question.by, stacked, strict=True))


CALCULATOR = TorchCalculator()
