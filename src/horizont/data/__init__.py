"""Data sets: catalogue, verified reading, canonical files, synthetic stand-ins, NumPy batches."""

from horizont.data.about import About
from horizont.data.batches import batch_indices, epoch_order, steps_per_epoch
from horizont.data.canonical import ImageData, TextData, load
from horizont.data.catalogue import DATASETS, DatasetInfo, dataset_info
from horizont.data.order import order_for
from horizont.data.prepare import prepare
from horizont.data.windows import window_starts

__all__ = [
    "DATASETS",
    "About",
    "DatasetInfo",
    "ImageData",
    "TextData",
    "batch_indices",
    "dataset_info",
    "epoch_order",
    "load",
    "order_for",
    "prepare",
    "steps_per_epoch",
    "window_starts",
]
