"""The loss."""

from __future__ import annotations

from typing import Any, Literal

import tensorflow as tf


class Loss:
    """Cross entropy of scores against class numbers, by TensorFlow's fused operator."""

    def __init__(self, reduction: Literal["mean", "sum"]) -> None:
        self.reduce = tf.reduce_mean if reduction == "mean" else tf.reduce_sum

    def __call__(self, logits: Any, labels: Any) -> Any:
        """Compute the loss of a batch.

        Parameters
        ----------
        logits
            Scores, (examples, classes).
        labels
            Class numbers, int64, (examples,).
        """
        return self.reduce(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
