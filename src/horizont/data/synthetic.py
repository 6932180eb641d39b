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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from horizont.data import fourier, synthetic
from horizont.data.catalogue import DatasetInfo
from horizont.data.prepared import Array, DatasetArrays, expected_arrays
from horizont.data.sources import ProgressCallback

CHUNK_IMAGES = (
    500  # images that share one random stream; a prefix of a set needs only its own chunks
)
COEFFICIENTS_PER_GREY_LEVEL = 1024  # coefficients are integers in 1/1024 grey level
PIXEL_ERROR = 0.55  # grey levels: 0.5 from rounding the pixels, below 0.05 from rounding the basis
IMAGE_SPLITS = ("train", "test")


@dataclass(frozen=True)
class ImageDistribution:
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


def prototypes(distribution: ImageDistribution) -> NDArray[np.int64]:
    """Return the signal coefficients of every prototype.

    Returns
    -------
    ndarray of int64, shape (classes, prototypes, channels, size, size)
        Zero outside of the signal modes; root mean square ``signal`` grey levels.
    """
    shape = (
        distribution.classes,
        distribution.prototypes,
        distribution.channels,
        distribution.size,
        distribution.size,
    )
    draws = distribution.stream(0).integers(-128, 129, size=(3, *shape)).sum(axis=0)
    waves = draws * fourier.signal_envelope(distribution.size)
    power = (waves**2).sum(axis=(2, 3, 4), keepdims=True)
    factor = (
        distribution.signal * COEFFICIENTS_PER_GREY_LEVEL * np.sqrt(distribution.channels / power)
    )
    return np.asarray(np.rint(waves * factor), np.int64)


def minimum_contrast(distribution: ImageDistribution) -> float:
    """Return the contrast above which the latent class is certain.

    With ``u`` the moduli of a prototype, ``g`` the least distance between two unit vectors
    ``u / |u|`` of different classes and ``s`` the signal's root mean square: an error ``e`` (root
    mean square) of the pixels moves the moduli by at most ``e``, so their unit vector by at most
    ``2 e / (contrast * s)``. The nearest prototype is of the right class while that is below
    ``g / 2``, that is for ``contrast > 4 e / (g * s)``.
    """
    moduli = _unit_moduli(fourier.synthesise(prototypes(distribution)), distribution)
    flat = moduli.reshape(distribution.classes * distribution.prototypes, -1)
    squared = np.clip(2.0 - 2.0 * flat @ flat.T, 0.0, None)
    owner = np.repeat(np.arange(distribution.classes), distribution.prototypes)
    gap = np.sqrt(squared[owner[:, None] != owner[None, :]].min())
    return float(4.0 * PIXEL_ERROR / (gap * distribution.signal))


def recover_classes(
    images: NDArray[np.uint8], distribution: ImageDistribution
) -> NDArray[np.int64]:
    """Return the latent class of every image: what the Bayes classifier answers.

    Parameters
    ----------
    images
        uint8, shape (N, channels, size, size).

    Returns
    -------
    ndarray of int64, shape (N,)
    """
    known = _unit_moduli(fourier.synthesise(prototypes(distribution)), distribution)
    flat = known.reshape(distribution.classes * distribution.prototypes, -1)
    found = _unit_moduli(images.astype(np.float64), distribution).reshape(len(images), -1)
    return np.asarray(np.argmax(found @ flat.T, axis=1) // distribution.prototypes)


def _unit_moduli(
    fields: NDArray[np.float64], distribution: ImageDistribution
) -> NDArray[np.float64]:
    modes = np.abs(np.fft.fft2(fields))[..., fourier.signal_spectrum(distribution.size)]
    norm = np.sqrt((modes**2).sum(axis=(-2, -1), keepdims=True))
    return np.asarray(modes / norm)


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
    bank, least = prototypes(distribution), minimum_contrast(distribution)
    for chunk, start in enumerate(range(0, count, CHUNK_IMAGES)):
        stream = distribution.stream(1 + IMAGE_SPLITS.index(split), chunk)
        images, labels, latent = _generate_chunk(distribution, bank, least, stream)
        keep = min(CHUNK_IMAGES, count - start)
        yield images[:keep], labels[:keep], latent[:keep]


def _generate_chunk(
    distribution: ImageDistribution,
    prototype_bank: NDArray[np.int64],
    lowest_contrast: float,
    stream: np.random.Generator,
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    latent = stream.integers(distribution.classes, size=CHUNK_IMAGES)
    labels = _flip_labels(latent, distribution, stream)
    which = stream.integers(distribution.prototypes, size=CHUNK_IMAGES)
    coefficients = prototype_bank[latent, which] + _draw_nuisance(distribution, stream)
    pixels = _render_pixels(fourier.synthesise(coefficients), lowest_contrast, stream)
    return _shift_images(pixels, distribution.max_shift, stream), labels, latent


def _flip_labels(
    latent: NDArray[np.int64], distribution: ImageDistribution, stream: np.random.Generator
) -> NDArray[np.int64]:
    flipped = stream.integers(1_000_000, size=CHUNK_IMAGES) < round(
        distribution.label_noise * 1_000_000
    )
    other = stream.integers(1, distribution.classes, size=CHUNK_IMAGES)
    return np.where(flipped, (latent + other) % distribution.classes, latent)


def _draw_nuisance(
    distribution: ImageDistribution, stream: np.random.Generator
) -> NDArray[np.int64]:
    shape = (CHUNK_IMAGES, distribution.channels, distribution.size, distribution.size)
    draws = stream.integers(-127, 128, size=shape, dtype=np.int8)
    weights = fourier.nuisance_weights(
        distribution.size,
        distribution.clutter * COEFFICIENTS_PER_GREY_LEVEL,
        distribution.noise * COEFFICIENTS_PER_GREY_LEVEL,
    )
    return draws * weights


def _render_pixels(
    fields: NDArray[np.float64], lowest_contrast: float, stream: np.random.Generator
) -> NDArray[np.uint8]:
    grey = fields / COEFFICIENTS_PER_GREY_LEVEL
    contrast = stream.integers(600, 1001, size=CHUNK_IMAGES) / 1000
    contrast = np.minimum(contrast, 127 / np.abs(grey).max(axis=(1, 2, 3)))
    if contrast.min() <= lowest_contrast:
        raise ArithmeticError(f"contrast {contrast.min():.3f} leaves the class uncertain")
    grey *= contrast[:, None, None, None]
    return np.asarray(np.rint(grey + 128), np.uint8)


def _shift_images(
    pixels: NDArray[np.uint8], max_shift: int, stream: np.random.Generator
) -> NDArray[np.uint8]:
    moves = stream.integers(-max_shift, max_shift + 1, size=(2, CHUNK_IMAGES))
    for axis, amounts in zip((2, 3), moves, strict=True):
        for amount in range(-max_shift, max_shift + 1):  # few distinct shifts: whole groups at once
            chosen = amounts == amount
            pixels[chosen] = np.roll(pixels[chosen], amount, axis=axis)
    return pixels


SUCCESSOR_PERCENTAGES = (40, 20, 12, 8, 6, 5, 4, 3, 1, 1)  # percent
SUCCESSOR_PERCENT = 60  # percent: the probability f of going on to a successor
BURN_IN_WORDS = (
    64  # words left out at the start, until the law of single words is the stationary one
)
ZIPF_SCALE = 10**9  # the weights of q are integers, so that drawing is exact
FIXED_POINT_ITERATIONS = 100  # of the fixed-point iteration; each shrinks the error by f
TEXT_SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class TextDistribution:
    """The constants of one synthetic text: vocabulary size ``words`` and ``seed``."""

    words: int
    seed: int = 0

    def stream(self, *path: int) -> np.random.Generator:
        """Return the independent random stream with this address."""
        address = np.random.SeedSequence([self.seed, self.words, *path])
        return np.random.Generator(np.random.PCG64(address))

    def vocabulary(self) -> tuple[str, ...]:
        """Return the words; the most frequent one ends a sentence."""
        return ("<eos>", *(f"w{index:04d}" for index in range(1, self.words)))


def _zipf_weights(words: int) -> NDArray[np.int64]:
    return np.asarray(np.rint(ZIPF_SCALE / (np.arange(words) + 2.7)), np.int64)


def _draw_zipf(words: int, count: int, stream: np.random.Generator) -> NDArray[np.int64]:
    edges = np.cumsum(_zipf_weights(words))
    places = stream.integers(edges[-1], size=count)
    return np.searchsorted(edges, places, side="right").astype(np.int64)


def successors(distribution: TextDistribution) -> NDArray[np.int64]:
    """Return the successors of every word, shape (words, m); one may stand there twice."""
    count = distribution.words * len(SUCCESSOR_PERCENTAGES)
    return _draw_zipf(distribution.words, count, distribution.stream(0)).reshape(
        distribution.words, -1
    )


def generate_text(distribution: TextDistribution, split: str, count: int) -> NDArray[np.int32]:
    """Return the first ``count`` words of a split, int32, shape (count,)."""
    part, total = 1 + TEXT_SPLITS.index(split), count + BURN_IN_WORDS
    # a stream for each kind of draw, so that a longer text begins like a shorter one
    follows = distribution.stream(part, 0).integers(100, size=total) < SUCCESSOR_PERCENT
    follows[0] = False  # there is nothing to follow
    edges, places = (
        np.cumsum(SUCCESSOR_PERCENTAGES),
        distribution.stream(part, 1).integers(100, size=total),
    )
    choice = np.searchsorted(edges, places, side="right")
    tokens = _draw_zipf(distribution.words, total, distribution.stream(part, 2))
    _follow_successors(tokens, follows, choice, successors(distribution))
    return tokens[BURN_IN_WORDS:].astype(np.int32)


def _follow_successors(
    tokens: NDArray[np.int64],
    follows: NDArray[np.bool_],
    choice: NDArray[np.int64],
    successors_of: NDArray[np.int64],
) -> None:
    """Overwrite every following word, all pieces one word further in each pass."""
    frontier = np.flatnonzero(~follows)
    while True:
        frontier = frontier[frontier + 1 < len(tokens)] + 1
        frontier = frontier[follows[frontier]]
        if not len(frontier):
            return
        tokens[frontier] = successors_of[tokens[frontier - 1], choice[frontier]]


def successor_matrix(distribution: TextDistribution) -> csr_matrix:
    """Return ``S``: sparse, shape (words, words), rows sum to one."""
    after = successors(distribution)
    rows = np.repeat(np.arange(distribution.words), after.shape[1])
    shares = np.tile(np.array(SUCCESSOR_PERCENTAGES) / 100, distribution.words)
    return csr_matrix(
        (shares, (rows, after.ravel())), shape=(distribution.words, distribution.words)
    )


def zipf_distribution(distribution: TextDistribution) -> NDArray[np.float64]:
    """Return ``q``, shape (words,)."""
    weights = _zipf_weights(distribution.words)
    return np.asarray(weights / weights.sum())


def stationary_distribution(distribution: TextDistribution) -> NDArray[np.float64]:
    """Return ``p``, shape (words,): the fixed point of ``p = (1 - f) q + f p S``."""
    fresh, follow = zipf_distribution(distribution), SUCCESSOR_PERCENT / 100
    backwards = successor_matrix(distribution).T.tocsr()
    single = fresh
    for _ in range(FIXED_POINT_ITERATIONS):
        single = (1 - follow) * fresh + follow * (backwards @ single)
    return np.asarray(single)


def entropy_rate(distribution: TextDistribution) -> float:
    """Return ``H`` in nats a word.

    A row of ``P`` is ``(1 - f) q`` but at a few successors: the row's entropy is that of
    ``(1 - f) q``, corrected at those places.
    """
    follow = SUCCESSOR_PERCENT / 100
    base = (1 - follow) * zipf_distribution(distribution)
    steps = successor_matrix(distribution).tocoo()
    full = base[steps.col] + follow * steps.data
    change = _entropy_terms(full) - _entropy_terms(base[steps.col])
    rows = _entropy_terms(base).sum() + np.bincount(steps.row, change, minlength=distribution.words)
    return float(stationary_distribution(distribution) @ rows)


def _entropy_terms(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(-probability * np.log(probability))


def best_perplexity(distribution: TextDistribution) -> float:
    """Return ``exp(H)``, rounded to six places so that it is the same on every machine."""
    return round(float(np.exp(entropy_rate(distribution))), 6)


_DISTRIBUTIONS = {
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


@dataclass(frozen=True)
class SyntheticDataset:
    """Generated content and the best that a model can reach on it, in expectation."""

    content: DatasetArrays
    best_accuracy: float | None = None
    best_perplexity: float | None = None


def image_distribution(info: DatasetInfo, seed: int) -> ImageDistribution:
    """Return the law of an image set's stand-in."""
    channels, size, _ = info.shape
    law = _DISTRIBUTIONS[info.name]
    return replace(law, classes=info.classes, channels=channels, size=size, seed=seed)


def text_distribution(info: DatasetInfo, seed: int) -> TextDistribution:
    """Return the law of a text's stand-in."""
    return TextDistribution(info.classes, seed)


def synthesise(
    info: DatasetInfo, splits: Mapping[str, int], seed: int, progress: ProgressCallback
) -> SyntheticDataset:
    """Generate the first examples of each split of a set's stand-in.

    Parameters
    ----------
    info
        The set whose place is taken.
    splits
        Examples wanted of each split; the first k are the same whatever k is.
    seed
        Everything random follows from it.
    progress
        Called after each chunk.
    """
    if info.kind == "text":
        return _synthesise_text(text_distribution(info, seed), splits, progress)
    return _synthesise_images(image_distribution(info, seed), info, splits, progress)


def _synthesise_text(
    distribution: TextDistribution, splits: Mapping[str, int], progress: ProgressCallback
) -> SyntheticDataset:
    tokens = {}
    for split, count in splits.items():
        tokens[f"{split}_tokens"] = synthetic.generate_text(distribution, split, count)
        progress(f"generating {split}", 1.0)
    content = DatasetArrays(tokens, distribution.vocabulary())
    return SyntheticDataset(content, best_perplexity=synthetic.best_perplexity(distribution))


def _synthesise_images(
    distribution: ImageDistribution,
    info: DatasetInfo,
    splits: Mapping[str, int],
    progress: ProgressCallback,
) -> SyntheticDataset:
    kinds = expected_arrays(info.kind, info.shape, splits)
    arrays: dict[str, Array] = {
        name: np.empty(shape, kind) for name, (kind, shape) in kinds.items()
    }
    for split, count in splits.items():
        done = 0
        for images, labels, _ in synthetic.generate_images(distribution, split, count):
            place = slice(done, done + len(labels))
            arrays[f"{split}_images"][place] = images
            arrays[f"{split}_labels"][place] = labels
            done += len(labels)
            progress(f"generating {split}", done / count)
    return SyntheticDataset(DatasetArrays(arrays), best_accuracy=distribution.best_accuracy)
