"""Noting the updates of MXNet's asynchronous servers.

A server makes its updates one after the other with the rule that the workers sent it, pickled.
Around that rule goes one that notes what it does. It is told the key and the gradient but not
whose it is: that is found out by content, see :mod:`horizont.frameworks.updates`.
"""

from __future__ import annotations

import os
from typing import Any

from horizont.errors import UserError
from horizont.frameworks.base import Recipe
from horizont.frameworks.mxnet.compat import mx
from horizont.frameworks.updates import note_applied
from horizont.spec import ProcessJob

#: From so many numbers on MXNet cuts a weight among several servers, if it is not told otherwise.
BIG = 1_000_000


class Noted(mx.optimizer.Optimizer):  # type: ignore[misc]
    """An update rule that notes each of its updates.

    Parameters
    ----------
    rule
        The rule that changes the weights.
    parts
        The names of the weights, by their keys.
    """

    def __init__(self, rule: Any, parts: tuple[str, ...]) -> None:
        super().__init__()
        self.rule = rule
        self.parts = parts
        self.aggregate_num = rule.aggregate_num

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """Make what the rule keeps of a weight."""
        return self.rule.create_state_multi_precision(index, weight)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Change a weight, or each of a list, and note it."""
        several = isinstance(index, list | tuple)
        indices, weights, grads = (index, weight, grad) if several else ([index], [weight], [grad])
        before = [value.asnumpy() for value in weights]
        gradients = [value.asnumpy() for value in grads]
        self.rule.update_multi_precision(index, weight, grad, state)
        for key, old, gradient, value in zip(indices, before, gradients, weights, strict=True):
            note_applied(self.parts[key], old, gradient, value.asnumpy())


def check_whole(recipe: Recipe, job: ProcessJob) -> None:
    """Refuse to record weights that are cut: a worker does not see where.

    Raises
    ------
    UserError
        If some weight is spread over several servers.
    """
    bound = int(os.environ.get("MXNET_KVSTORE_BIGARRAY_BOUND", BIG))
    largest = max(value.size for value in recipe.weights.values())
    if job.run.topology.servers > 1 and largest >= bound:
        allowed = f"none with several servers and a weight of {largest} numbers, which MXNet cuts"
        raise UserError("record_updates", job.run.record_updates, allowed)
