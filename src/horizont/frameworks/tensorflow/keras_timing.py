"""The parts of a model of Keras that are timed.

It imports nothing of Horizont, and runs wherever Keras does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from .keras_tensors import first_tensor
from .keras_training import stateless


def timed_part(model: Any, backend: Any, name: str, rate: float) -> Callable[[Any], Any]:
    """Return a function of a batch, compiled: ``evaluation``, ``forward`` or a training ``step``.

    The loss is the mean of the squared result; the update is one of SGD.
    """
    variables = model.trainable_variables
    optimizer = keras.optimizers.SGD(rate)
    optimizer.build(variables)

    def forward(batch: Any) -> Any:
        return ops.mean(ops.square(first_tensor(model(batch, training=True))))

    def step(batch: Any) -> Any:
        with backend.Tape() as tape:
            loss = forward(batch)
        if variables:
            repeat = stateless(lambda _: forward(batch), variables)
            gradients, _ = tape.gradients(loss, variables, repeat)
            optimizer.apply(gradients, variables)
        return loss

    def evaluate(batch: Any) -> Any:
        return first_tensor(model(batch, training=False))

    parts = {"evaluation": backend.evaluating(evaluate), "forward": forward, "step": step}
    used = [*model.variables, *optimizer.variables]
    compiled: Callable[[Any], Any] = backend.compiled(
        parts[name], stateless(parts[name], used), [each.value for each in used]
    )
    return compiled
