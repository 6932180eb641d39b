"""Operations without a kernel of TensorFlow on a CPU, in double precision or for gradients.

It imports nothing of Horizont.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from .tensor_layouts import same_padding

#: Batch norms, which have single precision.
FUSED_NORMS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")


def batch_norm(node: Any, operands: list[Any], epsilon: Any) -> list[Any]:
    """Compute a batch norm, with the statistics that its operation returns."""
    x, scale, offset, mean, variance = operands
    is_first, is_training = node.get_attr("data_format") == b"NCHW", node.get_attr("is_training")
    axes = [0, *range(2, x.ndim)] if is_first else list(range(x.ndim - 1))
    if is_training:
        mean, variance = tf.nn.moments(x, axes)
    shape = [1, -1, *(1 for _ in axes[1:])] if is_first else [-1]
    factor = scale * tf.math.rsqrt(variance + epsilon)
    centered = x - tf.reshape(mean, shape)
    result = centered * tf.reshape(factor, shape) + tf.reshape(offset, shape)
    if is_training:  # the running variance is that of a sample
        count = float(np.prod([x.shape[axis] for axis in axes]))
        variance = variance * (count / max(count - 1.0, 1.0))
    return [result, mean, variance, mean, variance, mean]


def dilated_convolution(node: Any, operands: list[Any], changes: dict[str, Any]) -> Any:
    """Compute a convolution with a dilation; None if there is none, or if it has a stride, too."""
    x, kernel = operands
    dilation = list(changes.get("dilations", node.get_attr("dilations")))[1:-1]
    stride = list(changes.get("strides", node.get_attr("strides")))[1:-1]
    is_last = node.get_attr("data_format") == b"NHWC"
    if max(dilation) == 1 or max(stride) > 1 or not is_last:
        return None
    padding = changes.get("padding", node.get_attr("padding").decode())
    zeros = [[0, 0], [0, 0]]
    if padding == "SAME":
        zeros = same_padding(x.shape[1:-1], kernel.shape[:2], stride, dilation)
    elif padding == "EXPLICIT":
        pads = list(changes.get("explicit_paddings", node.get_attr("explicit_paddings")))
        zeros = [pads[2:4], pads[4:6]]
    return tf.nn.convolution(
        tf.pad(x, [[0, 0], *zeros, [0, 0]]), kernel, padding="VALID", dilations=dilation
    )
