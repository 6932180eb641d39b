"""Update rules in MXNet, in the precision of the network.

MXNet's own optimizers accept float64 weights, but store their hyperparameters in float32: a
learning rate of 0.01 has a relative error of 2e-8, which the comparator would detect. So float64
has its own rules here, built of single operations; float32, in which times are measured, has
MXNet's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx

from horizont.config.workload import OptimizerConfig
from horizont.frameworks.base import TrainingSetup

#: The largest number of weights of MXNet's operator for several updates.
_MAX_AGGREGATED_WEIGHTS = 60

#: Up to so many elements in total, one operator for several weights is faster than one for each:
#: LeNet-5 spends its time on queueing. The operator iterates over the elements of all weights in
#: turn, with which ResNet-18 took 2.4 times as long.
_MAX_AGGREGATED_ELEMENTS = 100_000


def build_optimizer(setup: TrainingSetup, rescale: float = 1.0) -> Any:
    """Build the optimizer, which multiplies gradients by `rescale`.

    Its indices of the weights are their positions in the setup.
    """
    config = setup.optimizer
    options = {"learning_rate": config.learning_rate, "rescale_grad": rescale}
    if setup.dtype == "float64":
        optimizer = (Float64Adam if config.name == "adam" else Float64SGD)(config, **options)
    else:
        optimizer = _float32_optimizer(setup, options)
    optimizer.wd = config.weight_decay
    optimizer.set_wd_mult(
        {
            index: 1.0 if setup.weight_decay_of(name) else 0.0
            for index, name in enumerate(setup.weights)
        }
    )
    return optimizer


def _float32_optimizer(setup: TrainingSetup, options: dict[str, float]) -> Any:
    config = setup.optimizer
    if config.name == "adam":
        return Adam(beta1=config.beta1, beta2=config.beta2, epsilon=config.epsilon, **options)
    if config.nesterov:
        return Nesterov(momentum=config.momentum, **options)
    optimizer = mx.optimizer.SGD(momentum=config.momentum, **options)
    elements = sum(weight.size for weight in setup.weights.values())
    optimizer.aggregate_num = _MAX_AGGREGATED_WEIGHTS if elements <= _MAX_AGGREGATED_ELEMENTS else 1
    return optimizer


def clip_gradients(gradients: Sequence[Any], clip_norm: float) -> None:
    """Scale all gradients by one factor if their joint norm exceeds `clip_norm`.

    Gluon's own function adds 1e-8 to the norm, the other frameworks add nothing. It also uses
    MXNet's `norm` or `multi_sum_sq`, whose float32 results were off by 1e-3 for the two million
    numbers of an embedding table. Products of each row with itself are exact to 1e-7 and, unlike a
    sum, fast.
    """
    squares = []
    for gradient in gradients:
        rows = gradient.reshape((len(gradient) if gradient.ndim > 1 else 1, 1, -1))
        squares.append(mx.nd.batch_dot(rows, rows, transpose_b=True).sum())
    norm = mx.nd.add_n(*squares).sqrt()
    factor = mx.nd.minimum(clip_norm / norm, 1.0)
    for gradient in gradients:
        mx.nd.broadcast_mul(gradient, factor.reshape((1,) * gradient.ndim), out=gradient)


def canonical_state(config: OptimizerConfig, state: Any) -> list[Any]:
    """Return the optimizer state of a weight, one array per slot.

    MXNet's velocity is that of the weight, not of the gradient: it contains the negative learning
    rate.
    """
    if config.name == "adam":
        return [moment.asnumpy() for moment in state]
    return [state.asnumpy() / -config.learning_rate]


class Adam(mx.optimizer.Adam):
    """Adam in float32, by algorithm 1 of its paper.

    MXNet's operator adds epsilon before the second moment is corrected; with
    epsilon * sqrt(1 - beta2^t) it computes the algorithm.
    """

    def __init__(self, epsilon: float, **kwargs: float) -> None:
        super().__init__(epsilon=epsilon, **kwargs)
        self.configured_epsilon = epsilon

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a weight."""
        step = self._index_update_count.get(index, self.begin_num_update) + 1
        self.epsilon = self.configured_epsilon * (1.0 - self.beta2**step) ** 0.5
        super().update(index, weight, grad, state)


class Nesterov(mx.optimizer.NAG):
    """Nesterov's momentum in float32, with weight decay as a part of the gradient.

    MXNet's operator with weight decay computes a different update from the second step on.
    """

    def _get_wd(self, index: Any) -> float:
        """Return no decay to the operator."""
        del index
        return 0.0

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a weight."""
        decay = super()._get_wd(index)
        if decay:  # divided, because the operator multiplies the sum by the rescaling factor
            grad = grad + decay / self.rescale_grad * weight
        super().update_multi_precision(index, weight, grad, state)


class _Float64Optimizer(mx.optimizer.Optimizer):
    def __init__(self, config: OptimizerConfig, **kwargs: float) -> None:
        super().__init__(**kwargs)
        self.config = config


class Float64SGD(_Float64Optimizer):
    """Gradient descent in float64, with momentum if configured."""

    def create_state(self, index: Any, weight: Any) -> Any:
        """Return a velocity, as MXNet defines it, if there is momentum."""
        del index
        return mx.nd.zeros_like(weight) if self.config.momentum else None

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a weight."""
        move = -self.learning_rate * (self.rescale_grad * grad + self._get_wd(index) * weight)
        if state is None:
            weight += move
            return
        momentum = self.config.momentum
        state *= momentum
        state += move
        weight += move + momentum * state if self.config.nesterov else state


class Float64Adam(_Float64Optimizer):
    """Adam in float64, by algorithm 1 of its paper."""

    def create_state(self, index: Any, weight: Any) -> Any:
        """Return two moments."""
        del index
        return mx.nd.zeros_like(weight), mx.nd.zeros_like(weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a weight."""
        self._update_count(index)
        step = self._index_update_count[index]
        beta1, beta2 = self.config.beta1, self.config.beta2
        gradient = self.rescale_grad * grad + self._get_wd(index) * weight
        first, second = state
        first *= beta1
        first += (1 - beta1) * gradient
        second *= beta2
        second += (1 - beta2) * gradient * gradient
        corrected = mx.nd.sqrt(second / (1 - beta2**step)) + self.config.epsilon
        weight -= self.learning_rate / (1 - beta1**step) * first / corrected
