"""Run in a process of its own: how much the batches of each reader differ from those from memory.

Prints the largest difference of each as JSON: ``python -m tests.frameworks.reading FRAMEWORK
PREPARED FILES``
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from horizont.config.input import InputPipeline
from horizont.config.system import READERS, framework_info
from horizont.config.workload import OptimizerConfig, Workload
from horizont.data.files import open_files
from horizont.data.prepared import load
from horizont.frameworks import load_adapter
from horizont.frameworks.base import ImagesOnDisk, InMemoryImages, Normalisation, TrainingSetup
from horizont.networks.catalogue import network_for
from horizont.networks.weights import initial_weights

BATCH = 20
OPTIMIZER = OptimizerConfig(learning_rate=0.1)


def ways(reader: str) -> list[dict[str, Any]]:
    """Return the settings to test for a reader."""
    traits = READERS[reader]
    found: list[dict[str, Any]] = [{"cache": True, "prefetch": min(traits.max_prefetch_inline, 2)}]
    found += [{"cache": True}] if traits.always_cached else [{}]
    if traits.workers != "none":
        found += [{"workers": 2, "prefetch": 2}]
    return found


def content(batches: Any) -> list[list[Any]]:
    """Return inputs and classes of all batches as arrays."""
    return [
        [np.array(part.asnumpy() if hasattr(part, "asnumpy") else part) for part in batch]
        for batch in batches
    ]


def difference(found: list[list[Any]], expected: list[list[Any]]) -> float:
    """Return the largest difference of an input; infinite if anything else differs."""
    largest = 0.0
    for ours, theirs in itertools.zip_longest(found, expected, fillvalue=[]):
        kinds = [[(part.shape, part.dtype) for part in batch] for batch in (ours, theirs)]
        if kinds[0] != kinds[1] or not np.array_equal(ours[1], theirs[1]):
            return float("inf")
        largest = max(largest, float(np.max(np.abs(ours[0] - theirs[0]))))
    return largest


def main(framework: str, prepared: Path, folder: Path) -> None:
    """Read an epoch and a half with each reader and setting."""
    adapter = load_adapter(framework)
    adapter.configure(1)
    data = load(prepared)
    # Of the last file only a part is used.
    count = data.description.splits["train"] - BATCH
    files = open_files(data.description, folder).first(count)
    workload = Workload(network="lenet5", dataset=data.description.name, optimizer=OPTIMIZER)
    network = network_for(workload, data.description.shape, data.description.classes)
    mean, std = np.array(data.description.mean), np.array(data.description.std)
    scale = Normalisation(mean, std, upscale=2)
    trainer = adapter.trainer(TrainingSetup(network, initial_weights(network, 1), OPTIMIZER, scale))
    random, epoch = np.random.default_rng(3), len(files) // BATCH
    orders = [random.permutation(len(files))[: epoch * BATCH] for _ in range(2)]
    order = list(np.concatenate(orders).reshape(-1, BATCH)[: epoch + epoch // 2])
    by_number = list(np.resize(np.arange(len(files)), (len(order), BATCH)))
    images, labels = np.array(data.train_images[:count]), np.array(data.train_labels[:count])
    expected = {
        True: content(trainer.batches(InMemoryImages(images, labels, order))),
        False: content(trainer.batches(InMemoryImages(images, labels, by_number))),
    }
    found = {}
    for reader, traits in framework_info(framework).readers.items():
        for way in ways(reader):
            given = InputPipeline(source="files", reader=reader, **way)
            read = content(trainer.batches(ImagesOnDisk(files, order, given, reader)))
            found[f"{reader} {way}"] = difference(read, expected[traits.ordered])
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
