"""Data sets: catalogue, verified reading, canonical files, synthetic stand-ins, NumPy batches."""

from horizont.data.catalogue import DATASETS, DatasetInfo, dataset_info
from horizont.data.preparation import prepare
from horizont.data.prepared import DatasetDescription, ImageData, TextData, load
from horizont.data.sharding import (
    batch_indices,
    epoch_order,
    example_order,
    steps_per_epoch,
    window_starts,
)

__all__ = [
    "DATASETS",
    "DatasetDescription",
    "DatasetInfo",
    "ImageData",
    "TextData",
    "batch_indices",
    "dataset_info",
    "epoch_order",
    "load",
    "example_order",
    "prepare",
    "steps_per_epoch",
    "window_starts",
]
