"""The trainers of a GPU on a machine without one; print JSON.

The device ``meta`` computes nothing and refuses an operator with tensors of two devices, which
shows that all tensors are placed. What a GPU queues runs at once on the CPU, with a clock of this
process in the place of the device's events.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

from horizont.config.framework import Device
from horizont.config.run import StepCounts
from horizont.config.workload import OptimizerConfig
from horizont.frameworks import load_adapter
from horizont.frameworks.base import InMemoryImages, Normalisation, TextWindows, TrainingSetup
from horizont.frameworks.torch import cuda
from horizont.frameworks.torch.profiler import kernel_calls
from horizont.frameworks.torch.train import LocalTrainer
from horizont.monitoring.progress import StepCounter
from horizont.networks.catalogue import build_network
from horizont.networks.layers import LSTM, Dense, Dropout, Embedding
from horizont.networks.network import Network
from horizont.networks.weights import initial_statistics, initial_weights
from horizont.training.loop import TrainingLoop

META: Any = "meta"


class HostEvent:
    """An event of a device that executes at once."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.time_s = monotonic()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: HostEvent) -> float:
        return (end.time_s - self.time_s) * 1e3


def image_setup(network_name: str = "lenet5", device: Device = "cpu") -> TrainingSetup:
    """Return the setup of a network with every kind of state of an optimizer."""
    network = build_network(network_name, (3, 32, 32), 10)
    scale = Normalisation(np.array([0.4, 0.5, 0.6]), np.array([0.2, 0.25, 0.3]))
    optimizer = OptimizerConfig(learning_rate=0.1, momentum=0.9, clip_norm=0.5, weight_decay=1e-4)
    return TrainingSetup(
        network,
        initial_weights(network, 5),
        optimizer,
        scale,
        running_statistics=initial_statistics(network),
        device=device,
    )


def text_setup(device: Device) -> TrainingSetup:
    """Return the setup of a small language model with external dropout masks."""
    layers = (
        Embedding(name="embedding", words=20, features=6),
        LSTM(name="lstm", units=5),
        Dropout(name="dropout", rate=0.5, external_mask=True),
        Dense(name="fc", features=20),
    )
    network = Network("small-text", (4,), 20, layers)
    optimizer = OptimizerConfig(name="adam", learning_rate=0.1, clip_norm=0.5)
    return TrainingSetup(network, initial_weights(network, 5), optimizer, None, device=device)


def examples(steps: int) -> InMemoryImages:
    random = np.random.default_rng(5)
    return InMemoryImages(
        random.integers(0, 256, (8, 3, 32, 32), dtype=np.uint8),
        random.integers(0, 10, 8),
        [random.permutation(8) for _ in range(steps)],
    )


def devices_of(trainer: LocalTrainer) -> set[str]:
    """List the devices of weights, gradients, statistics, recurrent state and optimizer state."""
    tensors = [*trainer.module.parameters(), *trainer.module.buffers()]
    tensors += [weight.grad for weight in trainer.parameters.values() if weight.grad is not None]
    for layer in trainer.recurrent.values():
        tensors += layer.state or ()
    for state in trainer.optimizer.state.values():
        tensors += [value for value in state.values() if value is not None and value.ndim]
    return {str(tensor.device) for tensor in tensors}


def placement() -> dict[str, Any]:
    """Train on the device ``meta``; each trainer takes two steps."""
    found = {}
    for name in ("lenet5", "resnet18"):
        trainer = LocalTrainer(image_setup(name, META))
        for batch in trainer.batches(examples(2)):
            loss = trainer.step(tuple(part.to(META) for part in batch))
        found[name] = [str(loss.device), *devices_of(trainer)]
    text = text_setup(META)
    trainer = LocalTrainer(text)
    windows = TextWindows(np.arange(100, dtype=np.int32) % 20, 4, [np.arange(3), np.arange(3) + 4])
    for batch in trainer.batches(windows):
        trainer.set_dropout_masks({"dropout": np.ones((3, 4, 5))})
        loss = trainer.step(tuple(part.to(META) for part in batch))
    found["text"] = [str(loss.device), *devices_of(trainer)]
    return found


def queued(folder: Path) -> dict[str, Any]:
    """Run the loop with the trainer of a GPU and with that of the CPU."""
    torch.cuda.Event = HostEvent  # type: ignore[assignment,misc]
    torch.cuda.synchronize = lambda: None
    warnings.filterwarnings("ignore", ".*pin_memory.*")
    steps = StepCounts(warmup=1, timed=4, instrumented=5)
    setup, data = image_setup(), examples(steps.total)
    columns, weights = [], []
    for trainer in (LocalTrainer(setup), cuda.build_trainer(setup)):
        with StepCounter(folder / "progress", steps.total) as progress:
            loop = TrainingLoop(trainer, steps, 0, progress)
            loop.run(trainer.batches(data), on_first_step=lambda: None)
        table = loop.log.table()
        columns.append({name: np.array(table[name].to_pylist()) for name in table.column_names})
        weights.append(trainer.weights())
    plain, with_events = columns
    chosen = with_events["kind"] == "instrumented"
    start_s, step_s = (with_events[name][chosen] for name in ("start_s", "step_s"))
    phases = np.array(
        [with_events[name][chosen] for name in ("load_s", "forward_s", "backward_s", "update_s")],
        dtype=np.float64,
    )
    marks: list[tuple[str, float | None]] = []
    batch = next(cuda.build_trainer(setup).batches(data))
    before_s = monotonic()
    cuda.build_trainer(setup).instrumented_step(batch, lambda *mark: marks.append(mark))
    times_s = [before_s, *(end_s for _, end_s in marks if end_s is not None), monotonic()]
    return {
        "losses": float(np.abs(with_events["loss"] - plain["loss"]).max()),
        "weights": max(float(np.abs(weights[0][n] - weights[1][n]).max()) for n in weights[0]),
        "smallest_phase_s": float(phases.min()),
        "rest_s": float(np.abs(step_s - phases.sum(axis=0)).max()),
        "gap_s": float(np.abs(np.diff(start_s) - step_s[:-1]).max()),
        "marks": [phase for phase, _ in marks],
        "in_order": times_s == sorted(times_s),
    }


def classes(folder: Path) -> list[list[str]]:
    """Return name, class and phase of kernels that a GPU would run for operators of a CPU."""
    trainer = LocalTrainer(replace(image_setup(), optimizer=OptimizerConfig(learning_rate=0.1)))
    batch = next(trainer.batches(examples(1)))
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        trainer.step(batch)
    events = sorted(profiler.events(), key=lambda event: event.time_range.start)
    profiler.export_chrome_trace(str(folder / "trace.json"))
    trace = json.loads((folder / "trace.json").read_text())["traceEvents"]
    launching = ("aten::convolution", "aten::convolution_backward", "aten::add_")
    kernels = [
        {
            "cat": "kernel",
            "name": f"kernel of {event['name']}",
            "ts": 1000.0 + number,
            "dur": 0.5,
            "args": {"External id": event["args"]["External id"], "stream": 7},
        }
        for number, event in enumerate(trace)
        if event.get("cat") == "cpu_op" and event["name"] in launching
    ]
    kernels.sort(key=lambda kernel: float(kernel["ts"]))
    annotation = {
        "cat": "gpu_user_annotation",
        "name": "Optimizer.step#SGD.step",
        "ts": 1000.0,
        "dur": 8000.0,
        "args": {"External id": 1, "stream": 7},
    }
    unknown = {
        "cat": "gpu_memset",
        "name": "Memset (Device)",
        "ts": 1e6,
        "dur": 1.0,
        "args": {"External id": 0, "stream": 7},
    }
    # A call of CUDA's interface has a number of its own, which may be that of an operator.
    first = min(event.id for event in events)
    runtime = FunctionEvent(id=first, name="cudaLaunchKernel", thread=0, start_us=0.0, end_us=1.0)
    calls = kernel_calls([*events, runtime], [*trace, annotation, unknown, *kernels])
    assert {call.thread for call in calls} == {7}
    assert all(call.self_s == call.total_s > 0 for call in calls)
    return [[call.node or call.name, call.operator_class, call.phase] for call in calls]


def precision() -> dict[str, list[Any]]:
    """Return the settings of float32 products for each variant."""
    found = {}
    for variant in ("default", "tf32", "channels_last"):
        cuda.set_float32_precision(variant)
        found[variant] = [
            torch.backends.cuda.matmul.allow_tf32,
            torch.backends.cudnn.allow_tf32,
            torch.get_float32_matmul_precision(),
        ]
    return found


def main(folder: str) -> None:
    """Run all checks; the folder is for files."""
    load_adapter("pytorch").configure(1)
    results = {
        "placement": placement(),
        "classes": classes(Path(folder)),
        "precision": precision(),
        "queued": queued(Path(folder)),
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
