"""A worker with a PyTorch whose max pooling is slow: one operator, slowed on purpose.

``python -m tests.frameworks.slowed JOB.json``

The operator's kernel is replaced by one that sleeps before it computes the same. Sleeping adds as
much to a step however busy the machine is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import torch

from horizont.training.worker import main

#: Each call takes this much longer: several steps of the network that is trained.
DELAY_S = 0.08


def slow_pooling(
    images: torch.Tensor, window: Sequence[int], *_: object
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pool (examples, channels, height, width) by windows that fill the images and share nothing.

    With such windows another operator of PyTorch's computes the same values and places.
    """
    time.sleep(DELAY_S)
    sides = [size // side for size, side in zip(images.shape[2:], window, strict=True)]
    return torch.ops.aten.adaptive_max_pool2d(images, sides)


if __name__ == "__main__":
    library = torch.library.Library("aten", "IMPL")
    library.impl("max_pool2d_with_indices", slow_pooling, "CPU")
    sys.exit(main(sys.argv))
