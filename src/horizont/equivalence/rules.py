"""The update rules in NumPy, one number at a time: what every framework and server must do.

Written from the description in :class:`horizont.spec.Optimizer` alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.spec import Optimizer


class Moving:
    """A vector of weights under an update rule.

    Parameters
    ----------
    weights
        The initial weights; their type is the precision of everything that follows.
    decay
        The weight decay of each of them.
    """

    def __init__(self, rule: Optimizer, weights: NDArray[Any], decay: NDArray[Any]) -> None:
        self.rule = rule
        self.weights = weights.copy()
        self.decay = decay.astype(weights.dtype)
        self.kept = {slot: np.zeros_like(weights) for slot in rule.slots}
        self.updates = 0

    def update(self, gradient: NDArray[Any]) -> None:
        """Move against a gradient."""
        self.updates += 1
        decayed = gradient.astype(self.weights.dtype) + self.decay * self.weights
        move = self._adam(decayed) if self.rule.name == "adam" else self._sgd(decayed)
        self.weights = self.weights - self.rule.learning_rate * move

    def _sgd(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Tell the velocity, or the gradient where there is no momentum."""
        if not self.rule.momentum:
            return gradient
        velocity = self.rule.momentum * self.kept["velocity"] + gradient
        self.kept["velocity"] = velocity
        move: NDArray[Any] = velocity
        if self.rule.nesterov:
            move = gradient + self.rule.momentum * velocity
        return move

    def _adam(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Tell the corrected first moment over the root of the corrected second one."""
        rule, kept = self.rule, self.kept
        kept["first"] = rule.beta1 * kept["first"] + (1 - rule.beta1) * gradient
        kept["second"] = rule.beta2 * kept["second"] + (1 - rule.beta2) * gradient**2
        first = kept["first"] / (1 - rule.beta1**self.updates)
        second = kept["second"] / (1 - rule.beta2**self.updates)
        corrected: NDArray[Any] = first / (np.sqrt(second) + rule.epsilon)
        return corrected
