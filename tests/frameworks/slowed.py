"""A worker whose PyTorch has a slow max pooling.

``python -m tests.frameworks.slowed JOB.json``

The kernel of the operator is replaced by one that sleeps before it computes the same. Sleeping adds
the same time to a step on a busy machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import torch

from horizont.training.worker import main

#: The additional time of each call, longer than several steps of the network.
DELAY_S = 0.08


def slow_pooling(
    images: torch.Tensor, window: Sequence[int], *_: object
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pool (examples, channels, height, width) by windows that tile the images.

    With such windows another operator of PyTorch computes the same values and indices.
    """
    time.sleep(DELAY_S)
    sides = [size // side for size, side in zip(images.shape[2:], window, strict=True)]
    return torch.ops.aten.adaptive_max_pool2d(images, sides)


if __name__ == "__main__":
    library = torch.library.Library("aten", "IMPL")
    library.impl("max_pool2d_with_indices", slow_pooling, "CPU")
    sys.exit(main(sys.argv))
