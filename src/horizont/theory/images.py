"""Convolution and pooling on images, (examples, channels, height, width)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[Any]


def output_size(size: int, kernel: int, stride: int = 1, padding: int = 0) -> int:
    """Tell at how many places a window stands: floor((n + 2p - k) / s) + 1."""
    return (size + 2 * padding - kernel) // stride + 1


def convolution(images: Array, kernels: Array, stride: int = 1, padding: int = 0) -> Array:
    """Lay each kernel over each place of each image, multiply, and add up.

    Parameters
    ----------
    kernels
        (channels out, channels in, height, width). They are not turned round: what is called a
        convolution in deep learning is a cross-correlation.

    Returns
    -------
    Array
        (examples, channels out, places down, places across).
    """
    windows = _windows(padded(images, padding), kernels.shape[-2:], stride)
    return np.asarray(np.einsum("nchwij,ocij->nohw", windows, kernels, optimize=True))


def convolution_backward(
    gradient: Array,
    output: Array,
    images: Array,
    kernels: Array,
    *,
    stride: int = 1,
    padding: int = 0,
) -> tuple[Array, Array]:
    """Hand each output's gradient back to the pixels and the weights that made it."""
    del output
    windows = _windows(padded(images, padding), kernels.shape[-2:], stride)
    by_kernels = np.einsum("nchwij,nohw->ocij", windows, gradient, optimize=True)
    shares = np.einsum("nohw,ocij->nchwij", gradient, kernels, optimize=True)
    return _gathered(shares, images.shape, stride, padding), by_kernels


def max_pool(images: Array, size: int = 2, stride: int = 2) -> Array:
    """Keep the largest value of each window."""
    return np.asarray(_windows(images, (size, size), stride).max(axis=(-2, -1)))


def max_pool_backward(
    gradient: Array, output: Array, images: Array, size: int = 2, stride: int = 2
) -> tuple[Array]:
    """Hand the gradient to the largest value alone."""
    windows = _windows(images, (size, size), stride)
    largest = windows == output[..., None, None]
    return (_gathered(gradient[..., None, None] * largest, images.shape, stride, 0),)


def average_pool(images: Array, size: int = 2, stride: int = 2) -> Array:
    """Average each window."""
    return np.asarray(_windows(images, (size, size), stride).mean(axis=(-2, -1)))


def average_pool_backward(
    gradient: Array, output: Array, images: Array, size: int = 2, stride: int = 2
) -> tuple[Array]:
    """Hand the gradient to all values in equal parts."""
    shares = np.broadcast_to(gradient[..., None, None], (*output.shape, size, size))
    return (_gathered(shares / size**2, images.shape, stride, 0),)


def padded(images: Array, padding: int) -> Array:
    """Put zeros around each image."""
    around = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    return np.pad(images, around)


def _windows(images: Array, kernel: tuple[int, ...], stride: int) -> Array:
    """Cut out all windows: (examples, channels, places down, places across, height, width)."""
    every = sliding_window_view(images, kernel, axis=(2, 3))  # type: ignore[call-overload]
    return np.asarray(every[:, :, ::stride, ::stride])


def _gathered(shares: Array, shape: tuple[int, ...], stride: int, padding: int) -> Array:
    """Add up, for each pixel, its shares of all windows that it lies in."""
    examples, channels, height, width = shape
    total = np.zeros((examples, channels, height + 2 * padding, width + 2 * padding))
    down, across = shares.shape[2:4]
    for i, j in np.ndindex(*shares.shape[4:]):
        rows = slice(i, i + stride * down, stride)
        columns = slice(j, j + stride * across, stride)
        total[:, :, rows, columns] += shares[..., i, j]
    inner = slice(padding, padding + height), slice(padding, padding + width)
    return total[:, :, *inner]
