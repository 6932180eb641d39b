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
    x, scale, offset, *running = operands
    mean, variance = running
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
        part = float(str(np.float32(node.get_attr("exponential_avg_factor"))))
        if part < 1.0:  # the operation returns the running statistics after this step
            of_batch = zip(running, (mean, variance), strict=True)
            mean, variance = (old + part * (new - old) for old, new in of_batch)
    return [result, mean, variance, mean, variance, mean]


def convolution(node: Any, operands: list[Any], changes: dict[str, Any]) -> Any:
    """Compute a convolution with a dilation or groups; None if TensorFlow has what it needs."""
    x, kernel = operands
    dilation = list(changes.get("dilations", node.get_attr("dilations")))[1:-1]
    stride = list(changes.get("strides", node.get_attr("strides")))[1:-1]
    is_last = node.get_attr("data_format") == b"NHWC"
    groups = x.shape[-1] // kernel.shape[-2]
    is_known = max(stride) == 1 if max(dilation) > 1 else groups > 1
    if not (is_last and is_known):
        return None
    padding = changes.get("padding", node.get_attr("padding").decode())
    zeros = [[0, 0], [0, 0]]
    if padding == "SAME":
        zeros = same_padding(x.shape[1:-1], kernel.shape[:2], stride, dilation)
    elif padding == "EXPLICIT":
        pads = list(changes.get("explicit_paddings", node.get_attr("explicit_paddings")))
        zeros = [pads[2:4], pads[4:6]]
    x = tf.pad(x, [[0, 0], *zeros, [0, 0]])
    if groups > 1 and kernel.shape[-2] == 1:
        own = tf.reshape(kernel, [*kernel.shape[:2], groups, -1])
        return tf.nn.depthwise_conv2d(x, own, [1, *stride, 1], "VALID", dilations=dilation)
    parts = zip(tf.split(x, groups, -1), tf.split(kernel, groups, -1), strict=True)
    outputs = [tf.nn.convolution(*each, stride, "VALID", dilations=dilation) for each in parts]
    return tf.concat(outputs, -1)
