"""The loss."""

from __future__ import annotations

from typing import Any, Literal

import tensorflow as tf


class Loss:
    """Cross entropy of scores against class numbers, by TensorFlow's fused operator."""

    def __init__(self, reduction: Literal["mean", "sum"]) -> None:
        self.reduce = tf.reduce_mean if reduction == "mean" else tf.reduce_sum

    def __call__(self, logits: Any, labels: Any) -> Any:
        """Compute the loss of a batch; that of a text is summed over its time steps.

        Parameters
        ----------
        logits
            Scores, (examples, classes) or (examples, time steps, classes).
        labels
            Class numbers, int64, (examples,) or (examples, time steps).
        """
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        if len(losses.shape) > 1:
            losses = tf.reduce_sum(losses, axis=1)
        return self.reduce(losses)
