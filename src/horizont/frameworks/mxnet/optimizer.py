"""The update rules in MXNet, as exact as the numbers they work on.

MXNet's own optimizers take float64 weights, but keep their settings in float32: a rate of 0.01
is off by 2e-8 of itself, which the comparator would rightly catch. So float64 has a rule of its
own here, made of single operations; float32, in which times are measured, has MXNet's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx

from horizont.config.workload import OptimizerConfig
from horizont.frameworks.base import TrainingSetup

#: How many weights MXNet's operator for several updates takes at most.
MAX_AGGREGATED_WEIGHTS = 60

#: Up to so many numbers in all, one operator for several weights is faster than one for each:
#: LeNet-5 spends its time on queueing. It goes through all weights at once, a number of each in
#: turn, and ResNet-18 took 2.4 times as long so.
MAX_AGGREGATED_ELEMENTS = 100_000


def build_optimizer(setup: TrainingSetup, rescale: float = 1.0) -> Any:
    """Build the update rule for gradients that are to be multiplied by `rescale`.

    Weights are known to it by their places in the recipe.
    """
    settings = setup.optimizer
    about = {"learning_rate": settings.learning_rate, "rescale_grad": rescale}
    rule = (
        _float64_optimizer(settings, about)
        if setup.dtype == "float64"
        else _float32_optimizer(setup, about)
    )
    rule.wd = settings.weight_decay
    rule.set_wd_mult(
        {
            place: 1.0 if setup.weight_decay_of(name) else 0.0
            for place, name in enumerate(setup.weights)
        }
    )
    return rule


def _float32_optimizer(setup: TrainingSetup, options: dict[str, float]) -> Any:
    settings = setup.optimizer
    if settings.name == "adam":
        return Adam(beta1=settings.beta1, beta2=settings.beta2, epsilon=settings.epsilon, **options)
    if settings.nesterov:
        return Nesterov(momentum=settings.momentum, **options)
    rule = mx.optimizer.SGD(momentum=settings.momentum, **options)
    numbers = sum(weight.size for weight in setup.weights.values())
    rule.aggregate_num = MAX_AGGREGATED_WEIGHTS if numbers <= MAX_AGGREGATED_ELEMENTS else 1
    return rule


def _float64_optimizer(settings: OptimizerConfig, options: dict[str, float]) -> Any:
    return (Float64Adam if settings.name == "adam" else Float64SGD)(settings, **options)


def clip_gradients(gradients: Sequence[Any], clip_norm: float) -> None:
    """Scale all gradients down together if their norm is larger than allowed.

    Gluon's own function adds 1e-8 to the norm, the other frameworks add nothing. And it takes
    MXNet's `norm` or `multi_sum_sq`, which in float32 were off by 1e-3 for the two million
    numbers of a table of words. Products of each row with itself are exact to 1e-7 and, unlike
    a sum, fast.
    """
    squares = []
    for gradient in gradients:
        rows = gradient.reshape((len(gradient) if gradient.ndim > 1 else 1, 1, -1))
        squares.append(mx.nd.batch_dot(rows, rows, transpose_b=True).sum())
    norm = mx.nd.add_n(*squares).sqrt()
    factor = mx.nd.minimum(clip_norm / norm, 1.0)
    for gradient in gradients:
        mx.nd.broadcast_mul(gradient, factor.reshape((1,) * gradient.ndim), out=gradient)


def is_aggregated(rule: Any) -> bool:
    """Tell whether one queued operation changes up to :data:`AGGREGATE` weights."""
    return bool(rule.aggregate_num == MAX_AGGREGATED_WEIGHTS)


def canonical_state(settings: OptimizerConfig, state: Any) -> list[Any]:
    """Lay out what a rule keeps of a weight as the project does, one array for each slot.

    MXNet's velocity is that of the weight, not of its gradient: it holds the learning rate,
    with its sign.
    """
    if not settings.slots:
        return []
    if settings.name == "adam":
        return [kept.asnumpy() for kept in state]
    return [state.asnumpy() / -settings.learning_rate]


class Adam(mx.optimizer.Adam):  # type: ignore[misc]
    """Adam in float32, as algorithm 1 of its paper says.

    MXNet's operator adds epsilon before the second moment is corrected; given
    epsilon * sqrt(1 - beta2^t) it does what the algorithm says.
    """

    def __init__(self, epsilon: float, **kwargs: float) -> None:
        super().__init__(epsilon=epsilon, **kwargs)
        self.configured_epsilon = epsilon

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Move a weight."""
        step = self._index_update_count.get(index, self.begin_num_update) + 1
        self.epsilon = self.configured_epsilon * (1.0 - self.beta2**step) ** 0.5
        super().update(index, weight, grad, state)


class Nesterov(mx.optimizer.NAG):  # type: ignore[misc]
    """Nesterov's momentum in float32, with decay as a part of the gradient.

    MXNet's operator, given a decay, makes another update from the second step on.
    """

    def _get_wd(self, index: Any) -> float:
        """Keep the decay from the operator."""
        del index
        return 0.0

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Move a weight."""
        decay = super()._get_wd(index)
        if decay:  # the operator will multiply the sum by what the gradient is to be multiplied by
            grad = grad + decay / self.rescale_grad * weight
        super().update_multi_precision(index, weight, grad, state)


class Float64SGD(mx.optimizer.Optimizer):  # type: ignore[misc]
    """Gradient descent in float64, with momentum if it is asked for."""

    def __init__(self, settings: OptimizerConfig, **kwargs: float) -> None:
        super().__init__(**kwargs)
        self.settings = settings

    def create_state(self, index: Any, weight: Any) -> Any:
        """Keep a velocity, as MXNet means it, where there is momentum."""
        del index
        return mx.nd.zeros_like(weight) if self.settings.momentum else None

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Move a weight against its gradient."""
        move = -self.learning_rate * (self.rescale_grad * grad + self._get_wd(index) * weight)
        if state is None:
            weight += move
            return
        momentum = self.settings.momentum
        state *= momentum
        state += move
        weight += move + momentum * state if self.settings.nesterov else state


class Float64Adam(mx.optimizer.Optimizer):  # type: ignore[misc]
    """Adam in float64, as algorithm 1 of its paper says."""

    def __init__(self, settings: OptimizerConfig, **kwargs: float) -> None:
        super().__init__(**kwargs)
        self.settings = settings

    def create_state(self, index: Any, weight: Any) -> Any:
        """Keep two moments."""
        del index
        return mx.nd.zeros_like(weight), mx.nd.zeros_like(weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Move a weight."""
        self._update_count(index)
        step = self._index_update_count[index]
        beta1, beta2 = self.settings.beta1, self.settings.beta2
        gradient = self.rescale_grad * grad + self._get_wd(index) * weight
        first, second = state
        first *= beta1
        first += (1 - beta1) * gradient
        second *= beta2
        second += (1 - beta2) * gradient * gradient
        corrected = mx.nd.sqrt(second / (1 - beta2**step)) + self.settings.epsilon
        weight -= self.learning_rate / (1 - beta1**step) * first / corrected
