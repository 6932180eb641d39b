"""The synthetic stand-ins: same shapes, sizes and splits as the real sets, from a seed.

How hard a set is was chosen so that LeNet learns it over epochs, not at once: with 10,000
examples about a third of the CIFAR-10 stand-in is right after one epoch, two thirds after four.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from horizont.data import synthetic_images, synthetic_text
from horizont.data.catalogue import DatasetInfo
from horizont.data.content import Array, Content, layout
from horizont.data.progress import Progress
from horizont.data.synthetic_images import ImageLaw
from horizont.data.synthetic_text import TextLaw

_LAWS = {
    "cifar10": ImageLaw(
        10, 3, 32, prototypes=6, reach=3, flips=0.10, signal=36, clutter=36, noise=18
    ),
    "cifar100": ImageLaw(
        100, 3, 32, prototypes=3, reach=2, flips=0.10, signal=40, clutter=28, noise=16
    ),
    "fashion-mnist": ImageLaw(
        10, 1, 28, prototypes=6, reach=2, flips=0.05, signal=40, clutter=32, noise=16
    ),
}


@dataclass(frozen=True)
class Synthetic:
    """Generated content and the best that a model can reach on it, in expectation."""

    content: Content
    best_accuracy: float | None = None
    best_perplexity: float | None = None


def image_law(info: DatasetInfo, seed: int) -> ImageLaw:
    """Return the law of an image set's stand-in."""
    channels, size, _ = info.shape
    law = _LAWS[info.name]
    return replace(law, classes=info.classes, channels=channels, size=size, seed=seed)


def text_law(info: DatasetInfo, seed: int) -> TextLaw:
    """Return the law of a text's stand-in."""
    return TextLaw(info.classes, seed)


def synthesise(
    info: DatasetInfo, splits: Mapping[str, int], seed: int, progress: Progress
) -> Synthetic:
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
        return _synthesise_text(text_law(info, seed), splits, progress)
    return _synthesise_images(image_law(info, seed), info, splits, progress)


def _synthesise_text(law: TextLaw, splits: Mapping[str, int], progress: Progress) -> Synthetic:
    tokens = {}
    for split, count in splits.items():
        tokens[f"{split}_tokens"] = synthetic_text.generate(law, split, count)
        progress(f"generating {split}", 1.0)
    content = Content(tokens, law.vocabulary())
    return Synthetic(content, best_perplexity=synthetic_text.best_perplexity(law))


def _synthesise_images(
    law: ImageLaw, info: DatasetInfo, splits: Mapping[str, int], progress: Progress
) -> Synthetic:
    kinds = layout(info.kind, info.shape, splits)
    arrays: dict[str, Array] = {
        name: np.empty(shape, kind) for name, (kind, shape) in kinds.items()
    }
    for split, count in splits.items():
        done = 0
        for images, labels, _ in synthetic_images.generate(law, split, count):
            place = slice(done, done + len(labels))
            arrays[f"{split}_images"][place] = images
            arrays[f"{split}_labels"][place] = labels
            done += len(labels)
            progress(f"generating {split}", done / count)
    return Synthetic(Content(arrays), best_accuracy=law.best_accuracy)
