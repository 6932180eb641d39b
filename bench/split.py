"""``python -m bench.split FRAMEWORK NETWORK ROUNDS``: timed and instrumented steps alternately."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain, pairwise, repeat
from pathlib import Path
from statistics import median
from typing import Any

from bench.cases import CASES
from horizont.config.run import StepCounts
from horizont.frameworks import load_adapter
from horizont.frameworks.base import Trainer
from horizont.monitoring.progress import StepCounter
from horizont.training.loop import TrainingLoop


def main(framework: str, network: str, rounds: str) -> None:
    """Print, as JSON, the median ratio of an instrumented step to a timed one.

    The phases of an instrumented step add up to it, so this is the ratio of their sum. The speed
    of the machine may drift, so each segment is compared with its two neighbours, which are of
    the other kind.
    """
    case = CASES[network]
    adapter = load_adapter(framework)
    adapter.configure(1)
    trainer = adapter.trainer(case.setup())
    examples = case.examples()
    # As in a run, batches come from the framework's own pipeline while it trains.
    batches = chain.from_iterable(trainer.batches(examples) for _ in repeat(None))
    trainer.compile_instrumented_step(case.batch)
    steps = StepCounts(warmup=1, timed=case.steps, instrumented=case.steps)
    _round(trainer, batches, steps)  # the first steps allocate memory
    segments = [step_s for _ in range(int(rounds)) for step_s in _round(trainer, batches, steps)]
    # Even positions are timed.
    ratios = [
        second / first if index % 2 == 0 else first / second
        for index, (first, second) in enumerate(pairwise(segments))
    ]
    print(json.dumps(median(ratios)))


def _round(trainer: Trainer, batches: Iterator[Any], steps: StepCounts) -> tuple[float, float]:
    """Run steps of both kinds; return the mean timed and the mean instrumented step.

    Where timed steps are queued ahead, the first of a segment appears short and the last one long,
    so that only their sum is meaningful.
    """
    with StepCounter(Path("progress"), steps.total) as progress:
        loop = TrainingLoop(trainer, steps, 0, progress)
        loop.run(batches, lambda: None)
    mean_s = loop.log.table().to_pandas().groupby("kind")["step_s"].mean()
    return float(mean_s["timed"]), float(mean_s["instrumented"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as folder:
        os.chdir(folder)
        main(*sys.argv[1:])
