"""Run in a process of its own: the batches of each reader against those from memory, as JSON.

``python -m tests.frameworks.reading FRAMEWORK PREPARED FILES``
"""

from __future__ import annotations

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


def content(batches: Any) -> list[tuple[bytes, bytes]]:
    """Return all batches as bytes, with the classes as int64."""
    found = []
    for inputs, labels in batches:
        parts = [part.asnumpy() if hasattr(part, "asnumpy") else part for part in (inputs, labels)]
        pixels, classes = (np.asarray(part) for part in parts)
        found.append((pixels.tobytes(), classes.astype(np.int64).tobytes()))
    return found


def main(framework: str, prepared: Path, folder: Path) -> None:
    """Read an epoch and a half with each reader and setting."""
    adapter = load_adapter(framework)
    adapter.configure(1)
    data = load(prepared)
    files = open_files(data.description, folder)
    workload = Workload(network="lenet5", dataset=data.description.name, optimizer=OPTIMIZER)
    network = network_for(workload, data.description.shape, data.description.classes)
    scale = Normalisation(np.array(data.description.mean), np.array(data.description.std))
    trainer = adapter.trainer(TrainingSetup(network, initial_weights(network, 1), OPTIMIZER, scale))
    random, epoch = np.random.default_rng(3), len(files) // BATCH
    orders = [random.permutation(len(files))[: epoch * BATCH] for _ in range(2)]
    order = list(np.concatenate(orders).reshape(-1, BATCH)[: epoch + epoch // 2])
    by_number = list(np.resize(np.arange(len(files)), (len(order), BATCH)))
    images, labels = np.array(data.train_images), np.array(data.train_labels)
    expected = {
        True: content(trainer.batches(InMemoryImages(images, labels, order))),
        False: content(trainer.batches(InMemoryImages(images, labels, by_number))),
    }
    found = {}
    for reader, traits in framework_info(framework).readers.items():
        for way in ways(reader):
            given = InputPipeline(source="files", reader=reader, **way)
            read = content(trainer.batches(ImagesOnDisk(files, order, given, reader)))
            found[f"{reader} {way}"] = read == expected[traits.ordered]
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
