"""The update rules in TensorFlow, as exact as the numbers they work on.

Keras keeps the settings of its optimizers in float32, also for a float64 network: too coarse
where frameworks are compared to the last digits. So TensorFlow's own operators, which Keras'
optimizers once were made of, are called here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from horizont.frameworks.base import TrainingSetup, Weights
from horizont.frameworks.tensorflow.model import Model


class Optimizer:
    """An update rule and what it keeps of each weight, beside the weight."""

    def __init__(self, setup: TrainingSetup, model: Model) -> None:
        self.config = setup.optimizer
        self.model = model
        self.weight_decays = [setup.weight_decay_of(slot.name) for slot in model.layouts]
        kept = self.config.slots
        self.slot_variables = [
            [tf.Variable(tf.zeros(slot.variable.shape, setup.dtype), trainable=False) for _ in kept]
            for slot in model.layouts
        ]
        powers = (self.config.beta1, self.config.beta2) if "first" in kept else ()
        self.beta_powers = [
            tf.Variable(np.array(power, setup.dtype), trainable=False) for power in powers
        ]

    @property
    def variables(self) -> list[Any]:
        """All that is kept beside the weights."""
        return [*(variable for kept in self.slot_variables for variable in kept), *self.beta_powers]

    def apply(self, gradients: Sequence[Any]) -> list[Any]:
        """Clip the gradients, if that is asked for, and change all weights, wherever they lie.

        Returns
        -------
        list
            Operations to wait for.
        """
        if self.config.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.config.clip_norm)
        moved = [
            self._apply_one(
                slot.variable, self._add_weight_decay(slot.variable, gradient, decay), kept
            )
            for slot, gradient, decay, kept in zip(
                self.model.layouts, gradients, self.weight_decays, self.slot_variables, strict=True
            )
        ]
        if not self.beta_powers:
            return moved
        with tf.control_dependencies(moved):
            betas = (self.config.beta1, self.config.beta2)
            return [
                power.assign(power * tf.constant(beta, power.dtype))
                for power, beta in zip(self.beta_powers, betas, strict=True)
            ]

    def _add_weight_decay(self, variable: Any, gradient: Any, decay: float) -> Any:
        return gradient + decay * variable if decay else gradient

    def _apply_one(self, variable: Any, gradient: Any, slots: Sequence[Any]) -> Any:
        settings = self.config
        rate = tf.constant(settings.learning_rate, gradient.dtype)
        if settings.name == "adam":
            return self._adam(variable, gradient, slots, rate)
        if not slots:
            return variable.assign_sub(rate * gradient)
        return tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=_local_variable(slots[0]).handle,
            lr=rate,
            grad=gradient,
            momentum=tf.constant(settings.momentum, gradient.dtype),
            use_nesterov=settings.nesterov,
        )

    def _adam(self, variable: Any, gradient: Any, slots: Sequence[Any], rate: Any) -> Any:
        """Move by Adam's rule.

        TensorFlow's operator adds epsilon before the second moment is corrected, as in the
        paper's section 2; given epsilon * sqrt(1 - beta2^t) it does what algorithm 1 says.
        """
        settings, dtype = self.config, gradient.dtype
        power1, power2 = (_local_variable(power).read_value() for power in self.beta_powers)
        epsilon = tf.constant(settings.epsilon, dtype) * tf.sqrt(1 - power2)
        first, second = slots
        return tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=_local_variable(first).handle,
            v=_local_variable(second).handle,
            beta1_power=power1,
            beta2_power=power2,
            lr=rate,
            beta1=tf.constant(settings.beta1, dtype),
            beta2=tf.constant(settings.beta2, dtype),
            epsilon=epsilon,
            grad=gradient,
        )

    def state(self) -> Weights:
        """Read what is kept of each weight, by ``<weight>.<slot>`` and laid out canonically."""
        return {
            f"{slot.name}.{name}": slot.to_canonical(_local_variable(variable).numpy())
            for slot, kept in zip(self.model.layouts, self.slot_variables, strict=True)
            for name, variable in zip(self.config.slots, kept, strict=True)
        }


def _local_variable(variable: Any) -> Any:
    """Take the variable that a strategy keeps here out of its container."""
    return tf.distribute.get_strategy().experimental_local_results(variable)[0]
