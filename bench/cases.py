"""Networks that are timed against the frameworks' own loops: shapes, lengths of segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from horizont.config.run import Run, StepCounts
from horizont.config.system import DEFAULT, parse_system
from horizont.config.workload import OptimizerConfig
from horizont.data.sharding import window_starts
from horizont.frameworks.base import (
    InMemoryImages,
    Normalisation,
    TextWindows,
    Trainer,
    TrainingSetup,
)
from horizont.monitoring.progress import StepCounter
from horizont.networks.catalogue import build_network
from horizont.networks.weights import initial_statistics, initial_weights
from horizont.training.loop import TrainingLoop

RATE = 0.01
CLIP_NORM = 5.0
WORDS = 10_000

Loop = Callable[[], None]


@dataclass(frozen=True)
class Case:
    """A network, its inputs, and the length of its segments.

    Attributes
    ----------
    shape
        Of a stored image; of a text (time steps,).
    upscale
        See `horizont.config.workload.Workload`.
    processes
        Processes that measure, each for so many rounds of segments.
    """

    network: str
    steps: int
    rounds: int
    shape: tuple[int, ...] = (3, 32, 32)
    upscale: int = 1
    batch: int = 42
    processes: int = 3

    @property
    def reads_text(self) -> bool:
        """Whether it is a language model."""
        return len(self.shape) == 1

    def setup(self, variant: str = DEFAULT) -> TrainingSetup:
        """Return the network and its training setup."""
        sides = tuple(side * self.upscale for side in self.shape[1:])
        classes = WORDS if self.reads_text else 10
        network = build_network(self.network, (*self.shape[:1], *sides), classes)
        gray = np.full(self.shape[0], 0.5)
        return TrainingSetup(
            network=network,
            weights=initial_weights(network, 1),
            running_statistics=initial_statistics(network),
            optimizer=OptimizerConfig(
                learning_rate=RATE, clip_norm=CLIP_NORM if self.reads_text else None
            ),
            normalisation=None if self.reads_text else Normalisation(gray, gray / 2, self.upscale),
            variant=variant,
        )

    def examples(self) -> InMemoryImages | TextWindows:
        """Draw the training data of a segment."""
        random = np.random.default_rng(0)
        count = self.steps * self.batch
        if self.reads_text:
            words = random.integers(0, WORDS, count * self.shape[0] + 1, dtype=np.int32)
            order = window_starts(
                words=len(words),
                time_steps=self.shape[0],
                global_batch=self.batch,
                workers=1,
                rank=0,
                steps=self.steps,
            )
            return TextWindows(words, self.shape[0], list(order))
        return InMemoryImages(
            images=random.integers(0, 256, (count, *self.shape), dtype=np.uint8),
            labels=random.integers(0, 10, count),
            order=list(random.permutation(count).reshape(self.steps, self.batch)),
        )

    def our_loop(self, trainer: Trainer, batches: list[Any]) -> Loop:
        """Return the worker's own loop, which runs timed steps as in a run."""
        steps = StepCounts(warmup=1, timed=self.steps - 1, instrumented=0)

        def loop() -> None:
            with StepCounter(Path("progress"), self.steps) as progress:
                TrainingLoop(trainer, steps, 0, progress).run(iter(batches), lambda: None)

        return loop


CASES = {
    "lenet5": Case("lenet5", steps=60, rounds=9, processes=5),
    "lenet": Case("lenet", steps=20, rounds=7, shape=(1, 28, 28), processes=5),
    "alexnet-small": Case("alexnet-small", steps=3, rounds=3, upscale=2),
    "resnet18": Case("resnet18", steps=4, rounds=4),
    "resnet50": Case("resnet50", steps=3, rounds=3),
    "inception": Case("inception", steps=2, rounds=3, batch=16, processes=1),
    "lstm": Case("lstm", steps=6, rounds=3, shape=(30,), batch=20),
}


def lenet5_run(**changes: Any) -> Run:
    """Return a run of LeNet-5 with two workers of PyTorch that exchange by all-reduce."""
    values = {
        "experiment": "bench",
        "workload_name": "lenet5-cifar10",
        "workload": {
            "network": "lenet5",
            "dataset": "cifar10",
            "optimizer": {"learning_rate": RATE},
        },
        "system": parse_system("pytorch/sync/allreduce"),
        "topology": {"workers": 2},
        "global_batch": 84,
        "block": 0,
        "seed": 1,
        "timeout_s": 600,
    }
    return Run.model_validate({**values, **changes})
