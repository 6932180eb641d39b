"""Local SGD and compressed gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import cases, run_in_framework, small_run

from horizont.config.base import parse_config
from horizont.config.run import Run
from horizont.config.system import SYSTEMS, installed_version
from horizont.equivalence.bounds import relative_distance
from horizont.errors import UserError
from horizont.launchers.execute import RunPaths, execute
from horizont.networks.catalogue import build_network
from horizont.networks.weights import initial_weights

pytestmark = pytest.mark.framework

EXCHANGING = [name for name, info in SYSTEMS.items() if info.has_gradient_exchange]


def distances(run: Run, folder: Path, data: Path) -> dict[str, float]:
    """Return the distances between the weights of a run and those of local SGD by hand."""
    if installed_version(run.system.framework) is None:
        pytest.skip(f"{run.system.framework} is not installed")
    record = execute(run, "key", RunPaths(folder, data, {}), lambda done, planned: None)
    assert record.ok, record.result.reason
    timed = record.steps().to_pandas().query("kind == 'instrumented'")
    assert timed[[f"{phase}_s" for phase in run.system.info.phases]].notna().all(axis=None)
    (folder / "run.json").write_text(run.model_dump_json())
    words = ("-m", "tests.frameworks.averaging", folder / "run.json", data, folder / "out.npz")
    run_in_framework(run.system.framework, *words)
    weights, expected = np.load(record.folder / "weights.npz"), np.load(folder / "out.npz")
    first = initial_weights(build_network("lenet5", (3, 32, 32), 10), run.seed)
    return {
        name: relative_distance(
            weights[name] - first[name].astype("float32"), expected[name], expected[name]
        )
        for name in first
    }


@pytest.mark.parametrize("name", cases(EXCHANGING, "pytorch/sync/allreduce"))
def test_weights_are_averaged_after_every_local_steps(
    name: str, tmp_path: Path, small_cifar: Path
) -> None:
    run = small_run(name, save_weights=True, gradient_exchange={"local_steps": 3})
    assert run.steps.total % 3 == 1  # the last step is not averaged
    assert max(distances(run, tmp_path, small_cifar).values()) < 1e-4


@pytest.mark.parametrize("name", cases(EXCHANGING, "pytorch/sync/allreduce"))
def test_compressed_gradients_are_rounded_to_16_bits(
    name: str, tmp_path: Path, small_cifar: Path
) -> None:
    # Few steps: with later weights max pooling may pick other elements, which is not rounding.
    steps = {"warmup": 1, "timed": 1, "instrumented": 1}
    compressed = {"compression": "float16"}
    # With this seed no pooling window has two values so close that rounding picks the other one.
    run = small_run(name, save_weights=True, gradient_exchange=compressed, steps=steps, seed=2)
    found = distances(run, tmp_path, small_cifar).values()
    # Rounding to 11 bits: at most 5e-4; the distance without compression is about 1e-6.
    assert 2e-5 < max(found) < 1e-3


@pytest.mark.parametrize("name", [name for name in SYSTEMS if name not in EXCHANGING])
@pytest.mark.parametrize(
    ("exchange", "message"),
    [
        ({"local_steps": 2}, "gradient_exchange.local_steps: 2 .* 1 for"),
        ({"compression": "float16"}, "gradient_exchange.compression: 'float16' .* 'none' for"),
    ],
)
def test_other_systems_reject_it(name: str, exchange: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_config(Run, small_run(name).model_dump() | {"gradient_exchange": exchange})


def test_local_steps_and_compression_exclude_each_other() -> None:
    both = {"local_steps": 2, "compression": "float16"}
    with pytest.raises(UserError, match=r"gradient_exchange\.compression"):
        parse_config(Run, small_run(EXCHANGING[0]).model_dump() | {"gradient_exchange": both})
