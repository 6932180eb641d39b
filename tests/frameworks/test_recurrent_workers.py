"""The language model trained by several workers, each with its own recurrent state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import cases, small_run

from horizont.config.system import SYSTEMS, installed_version, parse_system
from horizont.data.preparation import prepare
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import Record

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]

LANGUAGE_MODEL = {
    "network": "lstm",
    "dataset": "ptb",
    "time_steps": 10,
    "optimizer": {"learning_rate": 0.5, "clip_norm": 5.0},
}
#: Other synchronous systems have servers, which treat all weights alike.
ALLREDUCE = [name for name in SYSTEMS if name.endswith("/allreduce")]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prepared")
    prepare("ptb", "synthetic", out / "raw", out, train_examples=20_000, test_examples=2_000)
    return out / "ptb"


def executed(system: str, store: Path, text: Path, **changes: object) -> Record:
    if installed_version(parse_system(system).framework) is None:
        pytest.skip(f"{system} cannot run")
    values = {"workload": LANGUAGE_MODEL, "global_batch": 4, "save_weights": True, **changes}
    run = small_run(system, **values)
    record = execute(run, run.system.slug, RunPaths(store, text, {}), lambda done, planned: None)
    assert record.ok, record.result.reason
    return record


@pytest.mark.parametrize("name", cases(ALLREDUCE, "pytorch/sync/allreduce"))
def test_workers_that_share_the_rows_train_like_one_process(
    name: str, tmp_path: Path, text: Path
) -> None:
    together = executed(name, tmp_path, text)
    alone = executed(f"{parse_system(name).framework}/local", tmp_path, text)
    one, other = (np.load(record.folder / "weights.npz") for record in (together, alone))
    for tensor in one:
        np.testing.assert_allclose(one[tensor], other[tensor], rtol=0, atol=2e-6)


def test_sent_table_rows_train_like_a_whole_table(tmp_path: Path, text: Path) -> None:
    # With gradients that are clipped, in which words occur more than once.
    workload = {**LANGUAGE_MODEL, "optimizer": {"learning_rate": 0.5, "clip_norm": 0.1}}
    remote, alone = (
        executed(system, tmp_path, text, workload=workload, **changes)
        for system, changes in (
            ("tensorflow/async/parameter_server", {"topology": {"workers": 1, "servers": 1}}),
            ("tensorflow/local", {}),
        )
    )
    one, other = (np.load(record.folder / "weights.npz") for record in (remote, alone))
    for tensor in one:
        np.testing.assert_allclose(one[tensor], other[tensor], rtol=0, atol=2e-6)


def test_workers_of_a_coordinator_have_their_own_states(tmp_path: Path, text: Path) -> None:
    steps = {"warmup": 2, "timed": 30, "instrumented": 4}
    record = executed(
        "tensorflow/async/parameter_server",
        tmp_path,
        text,
        steps=steps,
        evaluation={"examples": 40},
    )
    losses = record.steps().to_pandas()["loss"] / LANGUAGE_MODEL["time_steps"]
    assert losses.iloc[0] == pytest.approx(np.log(10_000), rel=0.01)
    assert losses.iloc[-8:].mean() < 0.97 * losses.iloc[0]
    assert record.result.test_perplexity is not None
    assert 300 < record.result.test_perplexity < 10_000
