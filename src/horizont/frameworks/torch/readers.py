"""PyTorch's input pipeline from files: a Dataset that reads whole batches, behind a DataLoader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from horizont.data.kept import KeptImages
from horizont.frameworks.base import OnDisk, when_asked
from horizont.frameworks.torch.input import Batch, Convert, as_it_is


class FileDataset(Dataset[Batch]):
    """Images in files, read and normalised as they are fetched."""

    def __init__(self, examples: OnDisk, convert: Convert) -> None:
        files = examples.files
        self.labels = torch.from_numpy(files.labels)
        kept = KeptImages(len(files), files.shape, files.read) if examples.input.cache else None
        self.read = kept or files.read
        self.convert = convert

    def __len__(self) -> int:
        """Count the examples."""
        return len(self.labels)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Fetch a batch at once."""
        chosen = np.asarray(indices)
        return self.convert(torch.from_numpy(self.read(chosen))), self.labels[chosen]


def batches(examples: OnDisk, convert: Convert) -> Iterator[Batch]:
    """Yield batches in the given order.

    Loader processes start when the first batch is asked for. They leave when this is closed.
    """
    given = examples.input
    loader = DataLoader(
        FileDataset(examples, convert),
        batch_sampler=examples.order,  # type: ignore[arg-type]
        collate_fn=as_it_is,
        num_workers=given.workers,
        prefetch_factor=given.prefetch or None,
    )
    return when_asked(loader)
