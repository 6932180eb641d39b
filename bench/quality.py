"""The LeNet variant on real Fashion-MNIST, four epochs: its test accuracy in every framework."""

from __future__ import annotations

import tempfile
from pathlib import Path

from horizont.analysis.learning import evaluations
from horizont.config.run import Run
from horizont.config.system import FRAMEWORKS, installed_version, parse_system
from horizont.data.preparation import prepare
from horizont.launchers.execute import RunPaths, execute

GOAL = 0.89
BATCH = 64
STEPS = 4 * 60_000 // BATCH
CHECKPOINTS = 5


def run() -> None:
    """Print the accuracy during the training and at its end."""
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as name:
        folder = Path(name)
        dataset = prepare("fashion-mnist", "available", folder / "raw", folder)
        if dataset.source != "real":
            print("  skipped: the real data set is missing (apt-get install dataset-fashion-mnist)")
            return
        for framework in FRAMEWORKS:
            if installed_version(framework):
                _train(framework, folder)


def _train(framework: str, folder: Path) -> None:
    paths = RunPaths(folder / "records", folder / "fashion-mnist", {})
    record = execute(accuracy_run(framework), framework, paths, lambda done, planned: None)
    if not record.ok:
        print(f"  {framework:<12} FAILED: {record.result.reason}")
        return
    table = evaluations([record])
    progress_text = ", ".join(
        f"{value:.1%} after {time_s:.0f} s"
        for value, time_s in zip(table["value"], table["time_s"], strict=True)
    )
    print(f"  {framework:<12} {record.result.test_accuracy:.2%} (goal {GOAL:.0%}); {progress_text}")


def accuracy_run(framework: str) -> Run:
    """Return a run that trains to the end."""
    return Run.model_validate(
        {
            "experiment": "quality",
            "workload_name": "lenet-fashion-mnist",
            "workload": {
                "network": "lenet",
                "dataset": "fashion-mnist",
                "optimizer": {"learning_rate": 0.02, "momentum": 0.9},
            },
            "system": parse_system(f"{framework}/local"),
            "topology": {"workers": 1},
            "steps": {"warmup": 1, "timed": STEPS - 1, "instrumented": 0},
            "global_batch": BATCH,
            "block": 0,
            "seed": 0,
            "sampler_hz": 0,
            "evaluation": {"examples": 10_000, "every": STEPS // CHECKPOINTS},
            "timeout_s": 1800,
        }
    )
