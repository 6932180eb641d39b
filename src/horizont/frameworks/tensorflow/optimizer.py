"""Update rules in TensorFlow, in the precision of the network.

Keras stores the hyperparameters of its optimizers in float32, also for a float64 network: too
coarse where frameworks are compared to the last digits. So this module calls TensorFlow's own
operators, on which Keras' optimizers were once built.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import tensorflow as tf

from horizont.frameworks.base import Weights
from horizont.frameworks.tensorflow.model import Model
from horizont.networks.weights import to_canonical_gates


class Optimizer:
    """An update rule with its state of each weight."""

    def __init__(self, model: Model) -> None:
        setup = model.setup
        self.config = setup.optimizer
        self.model = model
        self.weight_decays = [setup.weight_decay_of(layout.name) for layout in model.layouts]
        slots = self.config.slots
        self.slot_variables = [
            [
                tf.Variable(tf.zeros(layout.variable.shape, setup.dtype), trainable=False)
                for _ in slots
            ]
            for layout in model.layouts
        ]
        self.betas = (self.config.beta1, self.config.beta2) if "first" in slots else ()
        self.beta_powers = [
            tf.Variable(np.array(beta, setup.dtype), trainable=False) for beta in self.betas
        ]

    @property
    def variables(self) -> list[Any]:
        """All variables of the state."""
        return [*chain.from_iterable(self.slot_variables), *self.beta_powers]

    def apply(self, gradients: Sequence[Any]) -> list[Any]:
        """Clip the gradients if configured, and update all weights, on whatever device they are.

        A gradient may be `tf.IndexedSlices` without duplicate rows, if the rule is plain SGD.
        Return operations to wait for.
        """
        if self.config.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.config.clip_norm)
        updates = [
            self._apply_one(variable, gradient + decay * variable if decay else gradient, slots)
            for variable, gradient, decay, slots in zip(
                self.model.variables,
                gradients,
                self.weight_decays,
                self.slot_variables,
                strict=True,
            )
        ]
        if not self.beta_powers:
            return updates
        with tf.control_dependencies(updates):
            return [
                power.assign(power * tf.constant(beta, power.dtype))
                for power, beta in zip(self.beta_powers, self.betas, strict=True)
            ]

    def _apply_one(self, variable: Any, gradient: Any, slots: Sequence[Any]) -> Any:
        config = self.config
        rate = tf.constant(config.learning_rate, gradient.dtype)
        if config.name == "adam":
            return self._adam(variable, gradient, slots, rate)
        if isinstance(gradient, tf.IndexedSlices):
            return variable.scatter_sub(tf.IndexedSlices(rate * gradient.values, gradient.indices))
        if not slots:
            return variable.assign_sub(rate * gradient)
        return tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=_local_variable(slots[0]).handle,
            lr=rate,
            grad=gradient,
            momentum=tf.constant(config.momentum, gradient.dtype),
            use_nesterov=config.nesterov,
        )

    def _adam(self, variable: Any, gradient: Any, slots: Sequence[Any], rate: Any) -> Any:
        """Apply Adam's rule.

        TensorFlow's operator adds epsilon before the second moment is corrected, as in section 2 of
        the paper; with epsilon * sqrt(1 - beta2^t) it computes algorithm 1.
        """
        config, dtype = self.config, gradient.dtype
        power1, power2 = (_local_variable(power).read_value() for power in self.beta_powers)
        epsilon = tf.constant(config.epsilon, dtype) * tf.sqrt(1 - power2)
        first, second = slots
        return tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=_local_variable(first).handle,
            v=_local_variable(second).handle,
            beta1_power=power1,
            beta2_power=power2,
            lr=rate,
            beta1=tf.constant(config.beta1, dtype),
            beta2=tf.constant(config.beta2, dtype),
            epsilon=epsilon,
            grad=gradient,
        )

    def state(self) -> Weights:
        """Return the state of each weight as ``<weight>.<slot>``, in canonical layout."""
        named = {
            f"{layout.name}.{slot}": layout.to_canonical(_local_variable(variable).numpy())
            for layout, variables in zip(self.model.layouts, self.slot_variables, strict=True)
            for slot, variable in zip(self.config.slots, variables, strict=True)
        }
        return to_canonical_gates(self.model.setup.network, named)


def _local_variable(variable: Any) -> Any:
    """Return the local variable inside the container of a strategy."""
    return tf.distribute.get_strategy().experimental_local_results(variable)[0]
