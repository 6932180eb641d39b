"""Looks at a network on its way do not change it, and end where the run ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import small_run

from horizont.analysis.learning import evaluations
from horizont.config.system import installed_version, parse_system
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import Record

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]

STEPS = {"warmup": 1, "timed": 5, "instrumented": 0}


def carried_out(system: str, store: Path, data: Path, every: int) -> Record:
    if installed_version(parse_system(system).framework) is None:
        pytest.skip(f"{system} cannot run")
    run = small_run(
        system, steps=STEPS, evaluation={"examples": 64, "every": every}, save_weights=True
    )
    record = execute(run, f"looks-{every}", RunPaths(store, data, {}), lambda done, planned: None)
    assert record.ok, record.result.reason
    return record


@pytest.mark.parametrize("system", ["mxnet/local", "tensorflow/async/parameter_server"])
def test_looks_are_taken_on_the_way(system: str, tmp_path: Path, small_cifar: Path) -> None:
    record = carried_out(system, tmp_path, small_cifar, every=2)
    told = evaluations([record])
    # After 2, 4 and all 5 bare steps, behind one of warm-up.
    assert (told["examples"] / record.run.global_batch).tolist() == [3, 5, 6]
    assert told["time_s"].is_monotonic_increasing
    # Without instrumented steps the last look sees what the run ends with.
    assert told["value"].iloc[-1] == record.result.test_accuracy
    if "local" in system:
        unseen = carried_out(system, tmp_path, small_cifar, every=0)
        assert evaluations([unseen]).empty
        one, other = (np.load(each.folder / "weights.npz") for each in (record, unseen))
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_looks_without_examples_are_refused() -> None:
    with pytest.raises(ValueError, match="evaluate_every: 2 is not possible"):
        small_run(evaluation={"every": 2})
