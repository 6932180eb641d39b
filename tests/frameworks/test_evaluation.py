"""Checkpointed evaluation does not change training and ends with the run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import cases, small_run

from horizont.analysis.learning import evaluations
from horizont.config.system import installed_version, parse_system
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import Record

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]

STEPS = {"warmup": 1, "timed": 5, "instrumented": 0}


def executed(system: str, store: Path, data: Path, every: int) -> Record:
    if installed_version(parse_system(system).framework) is None:
        pytest.skip(f"{system} cannot run")
    run = small_run(
        system, steps=STEPS, evaluation={"examples": 64, "every": every}, save_weights=True
    )
    record = execute(
        run, f"evaluation-{every}", RunPaths(store, data, {}), lambda done, planned: None
    )
    assert record.ok, record.result.reason
    return record


@pytest.mark.parametrize(
    "system", cases(["mxnet/local", "tensorflow/async/parameter_server"], "mxnet/local")
)
def test_checkpoints_are_evaluated(system: str, tmp_path: Path, small_cifar: Path) -> None:
    record = executed(system, tmp_path, small_cifar, every=2)
    table = evaluations([record])
    # After 2, 4 and all 5 timed steps, which follow one of warm-up.
    assert (table["examples"] / record.run.global_batch).tolist() == [3, 5, 6]
    assert table["time_s"].is_monotonic_increasing
    # Without instrumented steps the last checkpoint holds the final weights.
    assert table["value"].iloc[-1] == record.result.test_accuracy
    assert (table["train_value"] * 64 % 1 == 0).all()
    assert (table["train_value"] != table["value"]).any()
    if "local" in system:
        unseen = executed(system, tmp_path, small_cifar, every=0)
        assert evaluations([unseen]).empty
        one, other = (np.load(each.folder / "weights.npz") for each in (record, unseen))
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_checkpoints_need_examples() -> None:
    with pytest.raises(ValueError, match="every: 2 is not possible"):
        small_run(evaluation={"every": 2})
