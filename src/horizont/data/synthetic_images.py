"""Synthetic images whose best reachable accuracy is known exactly.

The law of one example, for a latent class ``z`` drawn uniformly from ``C`` classes:

1. A prototype of class ``z`` gives the Fourier coefficients of the *signal modes*. All other
   coefficients are nuisance: smooth clutter at low frequencies, fine noise at high ones.
2. The field of all coefficients is shifted cyclically by a few pixels, scaled by a random
   contrast and rounded to ``uint8``. The contrast is lowered where the range 1..255 would be
   left, so nothing is ever clipped.
3. The label is ``z`` with probability ``1 - p``, else one of the ``C - 1`` other classes.

Nuisance is orthogonal to the signal modes, and a cyclic shift does not mix Fourier modes. So the
moduli at the signal modes are those of the prototype times the contrast, up to rounding, and
:func:`least_contrast` bounds the contrast above which ``z`` follows from the image with certainty.
Given ``z`` the label does not depend on the image; hence the Bayes classifier answers ``z``, and
the best accuracy is exactly ``1 - p`` (for ``p < (C - 1) / C``).

Only integer draws and exactly representable sums are used, so that the bytes do not depend on
the machine, its vector units or the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from horizont.data import fourier

CHUNK = 500  # images that share one random stream; a prefix of a set needs only its own chunks
UNIT = 1024  # coefficients are integers in 1/1024 grey level
ERROR = 0.55  # grey levels: 0.5 from rounding the pixels, below 0.05 from rounding the basis
SPLITS = ("train", "test")


@dataclass(frozen=True)
class ImageLaw:
    """The constants of one synthetic image set.

    Parameters
    ----------
    classes, channels, size
        Number of classes; number of channels; height and width in pixels.
    prototypes
        Patterns a class.
    reach
        Largest cyclic shift in pixels, along each axis.
    flips
        Probability ``p`` that the label is not the latent class.
    signal, clutter, noise
        Root mean square of the three parts before the contrast, in grey levels.
    seed
        Everything random follows from it.
    """

    classes: int
    channels: int
    size: int
    prototypes: int
    reach: int
    flips: float
    signal: int
    clutter: int
    noise: int
    seed: int = 0

    @property
    def best_accuracy(self) -> float:
        """Accuracy of the Bayes classifier, ``1 - p``."""
        return 1.0 - self.flips

    def stream(self, *path: int) -> np.random.Generator:
        """Return the independent random stream with this address."""
        address = [self.seed, self.classes, self.channels, self.size, *path]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(address)))


def prototypes(law: ImageLaw) -> NDArray[np.int64]:
    """Return the signal coefficients of every prototype.

    Returns
    -------
    ndarray of int64, shape (classes, prototypes, channels, size, size)
        Zero outside of the signal modes; root mean square ``signal`` grey levels.
    """
    shape = (law.classes, law.prototypes, law.channels, law.size, law.size)
    draws = law.stream(0).integers(-128, 129, size=(3, *shape)).sum(axis=0)
    waves = draws * fourier.signal_envelope(law.size)
    power = (waves**2).sum(axis=(2, 3, 4), keepdims=True)
    factor = law.signal * UNIT * np.sqrt(law.channels / power)
    return np.asarray(np.rint(waves * factor), np.int64)


def least_contrast(law: ImageLaw) -> float:
    """Return the contrast above which the latent class is certain.

    With ``u`` the moduli of a prototype, ``g`` the least distance between two unit vectors
    ``u / |u|`` of different classes and ``s`` the signal's root mean square: an error ``e`` (root
    mean square) of the pixels moves the moduli by at most ``e``, so their unit vector by at most
    ``2 e / (contrast * s)``. The nearest prototype is of the right class while that is below
    ``g / 2``, that is for ``contrast > 4 e / (g * s)``.
    """
    moduli = _unit_moduli(fourier.synthesise(prototypes(law)), law)
    flat = moduli.reshape(law.classes * law.prototypes, -1)
    squared = np.clip(2.0 - 2.0 * flat @ flat.T, 0.0, None)
    owner = np.repeat(np.arange(law.classes), law.prototypes)
    gap = np.sqrt(squared[owner[:, None] != owner[None, :]].min())
    return float(4.0 * ERROR / (gap * law.signal))


def recover_classes(images: NDArray[np.uint8], law: ImageLaw) -> NDArray[np.int64]:
    """Return the latent class of every image: what the Bayes classifier answers.

    Parameters
    ----------
    images
        uint8, shape (N, channels, size, size).

    Returns
    -------
    ndarray of int64, shape (N,)
    """
    known = _unit_moduli(fourier.synthesise(prototypes(law)), law)
    flat = known.reshape(law.classes * law.prototypes, -1)
    found = _unit_moduli(images.astype(np.float64), law).reshape(len(images), -1)
    return np.asarray(np.argmax(found @ flat.T, axis=1) // law.prototypes)


def _unit_moduli(fields: NDArray[np.float64], law: ImageLaw) -> NDArray[np.float64]:
    modes = np.abs(np.fft.fft2(fields))[..., fourier.signal_spectrum(law.size)]
    norm = np.sqrt((modes**2).sum(axis=(-2, -1), keepdims=True))
    return np.asarray(modes / norm)


def generate(
    law: ImageLaw, split: str, count: int
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the first ``count`` examples of a split, chunk by chunk.

    Yields
    ------
    images : ndarray of uint8, shape (n, channels, size, size)
    labels : ndarray of int64, shape (n,)
    latent : ndarray of int64, shape (n,)
        The classes before labels were changed.
    """
    bank, least = prototypes(law), least_contrast(law)
    for chunk, start in enumerate(range(0, count, CHUNK)):
        stream = law.stream(1 + SPLITS.index(split), chunk)
        images, labels, latent = _chunk(law, bank, least, stream)
        keep = min(CHUNK, count - start)
        yield images[:keep], labels[:keep], latent[:keep]


def _chunk(
    law: ImageLaw, bank: NDArray[np.int64], least: float, stream: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    latent = stream.integers(law.classes, size=CHUNK)
    labels = _flip(latent, law, stream)
    which = stream.integers(law.prototypes, size=CHUNK)
    coefficients = bank[latent, which] + _nuisance(law, stream)
    pixels = _develop(fourier.synthesise(coefficients), least, stream)
    return _shift(pixels, law.reach, stream), labels, latent


def _flip(
    latent: NDArray[np.int64], law: ImageLaw, stream: np.random.Generator
) -> NDArray[np.int64]:
    flipped = stream.integers(1_000_000, size=CHUNK) < round(law.flips * 1_000_000)
    other = stream.integers(1, law.classes, size=CHUNK)
    return np.where(flipped, (latent + other) % law.classes, latent)


def _nuisance(law: ImageLaw, stream: np.random.Generator) -> NDArray[np.int64]:
    shape = (CHUNK, law.channels, law.size, law.size)
    draws = stream.integers(-127, 128, size=shape, dtype=np.int8)
    weights = fourier.nuisance_weights(law.size, law.clutter * UNIT, law.noise * UNIT)
    return draws * weights


def _develop(
    fields: NDArray[np.float64], least: float, stream: np.random.Generator
) -> NDArray[np.uint8]:
    grey = fields / UNIT
    contrast = stream.integers(600, 1001, size=CHUNK) / 1000
    contrast = np.minimum(contrast, 127 / np.abs(grey).max(axis=(1, 2, 3)))
    if contrast.min() <= least:
        raise ArithmeticError(f"contrast {contrast.min():.3f} leaves the class uncertain")
    grey *= contrast[:, None, None, None]
    return np.asarray(np.rint(grey + 128), np.uint8)


def _shift(pixels: NDArray[np.uint8], reach: int, stream: np.random.Generator) -> NDArray[np.uint8]:
    moves = stream.integers(-reach, reach + 1, size=(2, CHUNK))
    for axis, amounts in zip((2, 3), moves, strict=True):
        for amount in range(-reach, reach + 1):  # few distinct shifts: whole groups at once
            chosen = amounts == amount
            pixels[chosen] = np.roll(pixels[chosen], amount, axis=axis)
    return pixels
