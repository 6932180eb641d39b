"""The real Fourier basis of small square images, in exactly repeatable arithmetic.

A coefficient array has the axes (..., row function, column function); along each axis the
functions are ``1, c1, s1, c2, s2, ..., c(n/2)`` with ``ck = sqrt(2) cos(2 pi k y / n)``,
``sk = sqrt(2) sin(2 pi k y / n)`` and ``c(n/2) = cos(pi y)``. They are orthonormal for the mean
over ``y``, so a field's mean square is the sum of its squared coefficients.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

BAND = 4  # highest frequency, along either axis, of signal and clutter
BITS = 14  # the basis is rounded to multiples of 2**-14; all sums stay below 2**53, so exact


def frequencies(size: int) -> NDArray[np.int64]:
    """Return the frequency of each basis function: 0, 1, 1, 2, 2, ..., size / 2."""
    return np.asarray((np.arange(size) + 1) // 2)


@cache
def _basis(size: int) -> NDArray[np.float64]:
    frequency = frequencies(size)
    angle = 2 * np.pi * np.outer(frequency, np.arange(size)) / size
    odd = (np.arange(size) % 2 == 1)[:, None]
    waves = np.where(odd, np.cos(angle), np.sin(angle)) * np.sqrt(2)
    waves[0], waves[-1] = 1.0, np.cos(angle[-1])
    return np.asarray(np.rint(waves * 2**BITS))


def synthesise(coefficients: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the fields with these integer coefficients.

    Parameters
    ----------
    coefficients
        Integers, shape (..., n, n); the moduli of one field sum to less than 2**23.

    Returns
    -------
    ndarray of float64, shape (..., n, n)
        In the unit of the coefficients. Every sum is a sum of integers below 2**53 in modulus,
        which float64 holds exactly: neither the order of summation nor the number of threads of
        the matrix product can change a bit.
    """
    size = coefficients.shape[-1]
    basis = _basis(size)
    across = (coefficients.reshape(-1, size).astype(np.float64) @ basis).reshape(-1, size, size)
    turned = np.ascontiguousarray(across.transpose(0, 2, 1)).reshape(-1, size)
    fields = (turned @ basis).reshape(-1, size, size).transpose(0, 2, 1)
    return (fields * 2.0 ** (-2 * BITS)).reshape(coefficients.shape)


def _is_signal(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.bool_]:
    inside = np.maximum(rows, columns) <= BAND
    return np.asarray(inside & ((rows + columns) % 2 == 0) & (rows + columns > 0))


def signal_modes(size: int) -> NDArray[np.bool_]:
    """Return which coefficients, shape (size, size), carry the class: low, of even order."""
    frequency = frequencies(size)
    return _is_signal(frequency[:, None], frequency[None, :])


def signal_spectrum(size: int) -> NDArray[np.bool_]:
    """Return the same modes as places in ``numpy.fft.fft2``, shape (size, size)."""
    frequency = np.abs(np.rint(np.fft.fftfreq(size) * size)).astype(np.int64)
    return _is_signal(frequency[:, None], frequency[None, :])


def signal_envelope(size: int) -> NDArray[np.float64]:
    """Return the relative size of the signal coefficients: smooth, ``1 / (1 + fx + fy)``."""
    frequency = frequencies(size)
    return signal_modes(size) / (1.0 + frequency[:, None] + frequency[None, :])


def nuisance_weights(size: int, clutter: float, noise: float) -> NDArray[np.int64]:
    """Return integer weights for uniform draws from -127..127, zero at the signal modes.

    Parameters
    ----------
    clutter, noise
        Wanted root mean square of the low and of the other modes, in the coefficients' unit.
    """
    frequency = frequencies(size)
    order = frequency[:, None] + frequency[None, :]
    low = np.maximum(frequency[:, None], frequency[None, :]) <= BAND
    smooth = np.where(low & ~signal_modes(size), 1.0 / (1.0 + order), 0.0)
    fine = np.where(low, 0.0, 1.0)
    spread = np.sqrt(127 * 128 / 3)  # standard deviation of the uniform draws
    return _scaled(smooth, clutter / spread) + _scaled(fine, noise / spread)


def _scaled(part: NDArray[np.float64], rms: float) -> NDArray[np.int64]:
    return np.asarray(np.rint(part * rms / np.sqrt((part**2).sum())), np.int64)
