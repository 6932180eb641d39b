"""Stochastic gradient descent in MXNet, as exact as the numbers it works on."""

from __future__ import annotations

from typing import Any

from horizont.frameworks.mxnet.compat import mx
from horizont.spec import Optimizer

#: How many weights MXNet's operator for several updates takes at most.
AGGREGATE = 60


def build_optimizer(optimizer: Optimizer, dtype: str, rescale: float = 1.0) -> Any:
    """Build the update rule w -= learning_rate * rescale * gradient."""
    kind = mx.optimizer.SGD if dtype == "float32" else DoubleSGD
    rule = kind(learning_rate=optimizer.learning_rate, rescale_grad=rescale)
    if dtype == "float32":
        # One queued operation for all weights instead of one for every four.
        rule.aggregate_num = AGGREGATE
    return rule


class DoubleSGD(mx.optimizer.Optimizer):  # type: ignore[misc]
    """The update in float64.

    MXNet's own SGD takes float64 weights, but keeps its learning rate and factor in float32:
    a rate of 0.01 is off by 2e-8 of itself, which the comparator would rightly catch.
    """

    def create_state(self, index: Any, weight: Any) -> None:
        """Keep nothing beside the weights."""

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Move a weight against its gradient."""
        del index, state
        weight -= (self.learning_rate * self.rescale_grad) * grad
