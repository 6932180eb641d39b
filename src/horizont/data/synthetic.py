"""Synthetic stand-ins for the data sets, with a known best accuracy or perplexity.

They have the shapes, sizes and splits of the real sets. Their difficulty is chosen so that LeNet
learns them over epochs, not at once: with 10,000 examples about a third of the CIFAR-10 stand-in
is classified correctly after one epoch, two thirds after four.

Text: :mod:`horizont.data.synthetic_text`. An example of an image set, of a latent class ``z``
drawn uniformly from ``C`` classes, is generated as follows:

1. A prototype of class ``z`` gives the Fourier coefficients of the *signal modes*. All other
   modes hold nuisance: smooth clutter at low frequencies, fine noise at high ones.
2. The field is scaled by a random contrast, rounded to ``uint8`` and shifted cyclically by a few
   pixels. The contrast is lowered where the range 1..255 would be left: nothing is clipped.
3. The label is ``z`` with probability ``1 - p``, else one of the ``C - 1`` other classes.

A cyclic shift changes the phases of Fourier modes only. So the moduli at the signal modes are
those of the prototype times the contrast, up to rounding, and above :func:`minimum_contrast` the
image determines ``z``. Given ``z`` the label does not depend on the image; hence the Bayes
classifier answers ``z``, and the best accuracy is exactly ``1 - p`` (for ``p < (C - 1) / C``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from horizont.data.catalogue import DatasetInfo
from horizont.data.prepared import Array, DatasetArrays
from horizont.data.synthetic_text import TextDistribution, best_perplexity, generate_text

#: Images that share a random stream; the first examples of a set need only their own chunks.
CHUNK_IMAGES = 500
#: Highest frequency, along either axis, of signal and clutter, in periods per image.
BAND = 4
#: Root mean square error of a pixel, in grey levels: 0.5 by rounding, the rest by float32.
PIXEL_ERROR = 0.51
IMAGE_SPLITS = ("train", "test")


@dataclass(frozen=True)
class ImageDistribution:
    """The constants of a synthetic image set.

    Attributes
    ----------
    channels, size
        Shape of an image: (channels, size, size).
    prototypes
        Prototypes of each class.
    max_shift
        Largest cyclic shift along each axis, in pixels.
    label_noise
        Probability ``p`` that the label is not the latent class.
    signal, clutter, noise
        Root mean square of the three parts before the contrast, in grey levels.
    """

    classes: int
    channels: int
    size: int
    prototypes: int
    max_shift: int
    label_noise: float
    signal: int
    clutter: int
    noise: int
    seed: int = 0

    @property
    def best_accuracy(self) -> float:
        """Accuracy of the Bayes classifier, ``1 - p``."""
        return 1.0 - self.label_noise

    def stream(self, *path: int) -> np.random.Generator:
        """Return the independent random stream with this address."""
        address = [self.seed, self.classes, self.channels, self.size, *path]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(address)))


def _frequencies(size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the moduli of the frequencies of :func:`scipy.fft.fft2`, as a column and a row."""
    frequency = np.abs(scipy.fft.fftfreq(size, 1 / size))
    return frequency[:, None], frequency[None, :]


def signal_modes(size: int) -> NDArray[np.bool_]:
    """Return which modes of :func:`scipy.fft.fft2` carry the class: low ones of even order."""
    rows, columns = _frequencies(size)
    order = rows + columns
    return np.asarray((np.maximum(rows, columns) <= BAND) & (order % 2 == 0) & (order > 0))


def _filtered_noise(
    distribution: ImageDistribution,
    stream: np.random.Generator,
    count: int,
    gains: NDArray[np.float64],
) -> NDArray[np.float32]:
    """Draw white Gaussian fields (count, channels, size, size); multiply their Fourier modes."""
    size = distribution.size
    shape = (count, distribution.channels, size, size)
    modes = scipy.fft.rfft2(stream.standard_normal(shape, np.float32))
    modes *= gains[:, : size // 2 + 1].astype(np.float32)
    return np.asarray(scipy.fft.irfft2(modes, s=(size, size)))


def prototype_fields(distribution: ImageDistribution) -> NDArray[np.float32]:
    """Return the prototypes, shape (classes, prototypes, channels, size, size), in grey levels.

    The mean of each is zero, its root mean square ``signal``.
    """
    rows, columns = _frequencies(distribution.size)
    gains = signal_modes(distribution.size) / (1.0 + rows + columns)
    count = distribution.classes * distribution.prototypes
    fields = _filtered_noise(distribution, distribution.stream(0), count, gains)
    fields *= distribution.signal / np.sqrt((fields**2).mean(axis=(1, 2, 3), keepdims=True))
    return fields.reshape(distribution.classes, distribution.prototypes, *fields.shape[1:])


def _nuisance_gains(distribution: ImageDistribution) -> NDArray[np.float64]:
    """Return the gains of clutter and noise, zero at the signal modes."""
    rows, columns = _frequencies(distribution.size)
    is_low = np.maximum(rows, columns) <= BAND
    is_clutter = is_low & ~signal_modes(distribution.size)
    smooth, fine = is_clutter / (1.0 + rows + columns), np.where(is_low, 0.0, 1.0)
    return np.asarray(
        distribution.clutter * smooth / np.sqrt((smooth**2).mean())
        + distribution.noise * fine / np.sqrt((fine**2).mean())
    )


def minimum_contrast(distribution: ImageDistribution) -> float:
    """Return the contrast above which the latent class is certain.

    With ``u`` the moduli of a prototype, ``g`` the least distance between two unit vectors
    ``u / |u|`` of different classes and ``s`` the signal's root mean square: an error ``e`` (root
    mean square) of the pixels moves the moduli by at most ``e``, so their unit vector by at most
    ``2 e / (contrast * s)``. The nearest prototype is of the right class while that is below
    ``g / 2``, that is for ``contrast > 4 e / (g * s)``.
    """
    moduli = _prototype_moduli(distribution)
    squared = np.clip(2.0 - 2.0 * moduli @ moduli.T, 0.0, None)
    owner = np.repeat(np.arange(distribution.classes), distribution.prototypes)
    gap = np.sqrt(squared[owner[:, None] != owner[None, :]].min())
    return float(4.0 * PIXEL_ERROR / (gap * distribution.signal))


def recover_classes(
    images: NDArray[np.uint8], distribution: ImageDistribution
) -> NDArray[np.int64]:
    """Return the latent class of each image (N, channels, size, size), as the Bayes classifier."""
    similarity = _unit_moduli(images.astype(np.float64)) @ _prototype_moduli(distribution).T
    return np.asarray(np.argmax(similarity, axis=1) // distribution.prototypes)


def _prototype_moduli(distribution: ImageDistribution) -> NDArray[np.float64]:
    fields = prototype_fields(distribution).astype(np.float64)
    return _unit_moduli(fields.reshape(-1, *fields.shape[2:]))


def _unit_moduli(fields: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the moduli of the signal modes of all channels, as unit vectors, shape (N, modes)."""
    modes = np.abs(scipy.fft.fft2(fields))[..., signal_modes(fields.shape[-1])]
    flat = modes.reshape(len(fields), -1)
    return np.asarray(flat / np.linalg.norm(flat, axis=1, keepdims=True))


def generate_images(
    distribution: ImageDistribution, split: str, count: int
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the first ``count`` examples of a split, chunk by chunk.

    Yields
    ------
    images : ndarray of uint8, shape (n, channels, size, size)
    labels : ndarray of int64, shape (n,)
    latent : ndarray of int64, shape (n,)
        The classes before labels were changed.
    """
    prototypes, lowest_contrast = prototype_fields(distribution), minimum_contrast(distribution)
    gains = _nuisance_gains(distribution)
    for chunk, start in enumerate(range(0, count, CHUNK_IMAGES)):
        stream = distribution.stream(1 + IMAGE_SPLITS.index(split), chunk)
        latent = stream.integers(distribution.classes, size=CHUNK_IMAGES)
        labels = _flip_labels(latent, distribution, stream)
        which = stream.integers(distribution.prototypes, size=CHUNK_IMAGES)
        fields = prototypes[latent, which]
        fields += _filtered_noise(distribution, stream, CHUNK_IMAGES, gains)
        pixels = _render_pixels(fields, lowest_contrast, stream)
        images = _shift_images(pixels, distribution.max_shift, stream)
        size = min(CHUNK_IMAGES, count - start)
        yield images[:size], labels[:size], latent[:size]


def _flip_labels(
    latent: NDArray[np.int64], distribution: ImageDistribution, stream: np.random.Generator
) -> NDArray[np.int64]:
    flipped = stream.random(CHUNK_IMAGES) < distribution.label_noise
    other = stream.integers(1, distribution.classes, size=CHUNK_IMAGES)
    return np.where(flipped, (latent + other) % distribution.classes, latent)


def _render_pixels(
    fields: NDArray[np.float32], lowest_contrast: float, stream: np.random.Generator
) -> NDArray[np.uint8]:
    contrast = stream.uniform(0.6, 1.0, size=CHUNK_IMAGES)
    contrast = np.minimum(contrast, 127 / np.abs(fields).max(axis=(1, 2, 3)))
    if contrast.min() <= lowest_contrast:
        raise ArithmeticError(f"contrast {contrast.min():.3f} leaves the class uncertain")
    fields *= contrast[:, None, None, None].astype(np.float32)
    return np.asarray(np.rint(fields + 128), np.uint8)


def _shift_images(
    pixels: NDArray[np.uint8], max_shift: int, stream: np.random.Generator
) -> NDArray[np.uint8]:
    shifts = stream.integers(-max_shift, max_shift + 1, size=(2, CHUNK_IMAGES))
    for axis, amounts in zip((2, 3), shifts, strict=True):
        for amount in range(-max_shift, max_shift + 1):  # few distinct shifts: whole groups at once
            chosen = amounts == amount
            pixels[chosen] = np.roll(pixels[chosen], amount, axis=axis)
    return pixels


_IMAGE_DISTRIBUTIONS = {
    "cifar10": ImageDistribution(
        10, 3, 32, prototypes=6, max_shift=3, label_noise=0.10, signal=36, clutter=36, noise=18
    ),
    "cifar100": ImageDistribution(
        100, 3, 32, prototypes=3, max_shift=2, label_noise=0.10, signal=40, clutter=28, noise=16
    ),
    "fashion-mnist": ImageDistribution(
        10, 1, 28, prototypes=6, max_shift=2, label_noise=0.05, signal=40, clutter=32, noise=16
    ),
}


def image_distribution(info: DatasetInfo, seed: int) -> ImageDistribution:
    """Return the distribution of an image set's stand-in."""
    channels, size, _ = info.shape
    constants = _IMAGE_DISTRIBUTIONS[info.name]
    return replace(constants, classes=info.classes, channels=channels, size=size, seed=seed)


def synthesise(
    info: DatasetInfo, splits: Mapping[str, int], seed: int
) -> tuple[DatasetArrays, dict[str, float]]:
    """Create the stand-in of a data set.

    Parameters
    ----------
    splits
        Examples of each split; the first k are the same for any number of examples.

    Returns
    -------
    content : DatasetArrays
    best : dict
        The best that a model can reach in expectation: `best_accuracy` or `best_perplexity`.
    """
    arrays: dict[str, Array] = {}
    if info.kind == "text":
        text = TextDistribution(info.classes, seed)
        for split, count in splits.items():
            arrays[f"{split}_tokens"] = generate_text(text, split, count)
        return DatasetArrays(arrays, text.vocabulary()), {"best_perplexity": best_perplexity(text)}
    distribution = image_distribution(info, seed)
    for split, count in splits.items():
        images, labels, _ = zip(*generate_images(distribution, split, count), strict=True)
        arrays[f"{split}_images"] = np.concatenate(images)
        arrays[f"{split}_labels"] = np.concatenate(labels)
    return DatasetArrays(arrays), {"best_accuracy": distribution.best_accuracy}
