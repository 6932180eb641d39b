"""A slowed operator: the drill-down names it, and the comparison reports the regression.

Real runs of MXNet, of PyTorch, and of PyTorch with slow pooling, in three short blocks.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from tests.conftest import ROOT, small_run

from horizont.analysis import drilldown, operators, verdicts
from horizont.cli import main
from horizont.config.system import installed_version
from horizont.launchers import plan
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import Record
from horizont.reporting.explanations import explain_verdicts

pytestmark = pytest.mark.framework

MXNET, PYTORCH = "mxnet/local", "pytorch/local"
CERTIFICATES = {"mxnet": "verified", "pytorch": "verified"}
#: The operator that is slowed, and by how much in each call; see `tests.frameworks.slowed`.
OPERATOR, DELAY_S = "aten::max_pool2d_with_indices", 0.08
#: Pooling layers of LeNet-5.
POOLINGS = 2
STEPS = {"warmup": 1, "timed": 3, "instrumented": 3}
#: Additional steps of the first block, for the operators.
PROFILED = {"profiled": 2}
#: Kind of run -> number of its blocks. Significant differences need three.
BLOCKS = {"mxnet": 3, "before": 2, "after": 3}


@dataclass(frozen=True)
class Runs:
    """The records of the three kinds of runs, and the folders of PyTorch's."""

    mxnet: list[Record]
    plain: list[Record]
    slowed: list[Record]
    before: Path
    after: Path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, small_cifar: Path) -> Runs:
    for framework in ("mxnet", "pytorch"):
        if installed_version(framework) is None:
            pytest.skip(f"{framework} is not installed")
    folder = tmp_path_factory.mktemp("throttle")
    found: dict[str, list[Record]] = {kind: [] for kind in BLOCKS}
    for block in range(max(BLOCKS.values())):
        for kind in (kind for kind, blocks in BLOCKS.items() if block < blocks):
            found[kind].append(one_run(folder / kind, kind, block, small_cifar))
    return Runs(*found.values(), folder / "before", folder / "after")


def one_run(store: Path, kind: str, block: int, data: Path) -> Record:
    """Execute a run of a block; `after` is slow."""
    system = MXNET if kind == "mxnet" else PYTORCH
    steps = STEPS if block or kind == "before" else STEPS | PROFILED
    run = small_run(system, steps=steps, block=block)
    with pytest.MonkeyPatch.context() as patch:
        if kind == "after":
            path = os.environ.get("PYTHONPATH", "")
            patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, [path])]))
            patch.setattr(plan, "WORKER_MODULE", "tests.frameworks.slowed")
        place = RunPaths(store, data, {})
        record = execute(run, f"{run.system.slug}-b{block}", place, lambda done, planned: None)
    assert record.ok, record.result.reason
    return record


def test_only_time_is_changed(runs: Runs) -> None:
    plain, slowed = (side[1].steps().to_pandas() for side in (runs.plain, runs.slowed))
    pd.testing.assert_series_equal(plain["loss"], slowed["loss"])
    measured = slowed["kind"].isin(["timed", "instrumented"])
    assert slowed.loc[measured, "step_s"].min() > POOLINGS * DELAY_S


def test_the_drilldown_names_the_slowed_operator(runs: Runs) -> None:
    records = [*runs.slowed, *runs.mxnet]
    (drill,) = drilldown.drilldowns(records, operators.operator_table(records))
    assert [part.part for part in drill.path] == ["local", "forward", "pooling", OPERATOR]
    assert not drill.stop_reason
    table = drill.table().set_index("part")
    assert table.loc[["local", "forward", "pooling"], "fraction"].min() > 0.5
    compared = verdicts.pairwise_verdicts(records, CERTIFICATES)
    # On a busy machine three blocks may be undecided; the sentence is tested, not the verdict.
    decided = compared.assign(outcome="B faster")
    (sentence,) = explain_verdicts(decided, [drill]).items
    assert "MXNet is" in sentence.text
    assert f" in the operator {OPERATOR}, which MXNet does not have." in sentence.text
    assert {record.folder.name for record in records} == {
        name for number in sentence.numbers for name in number.records
    }


def test_the_comparison_shows_the_regression(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = str(runs.before), str(runs.after)
    assert main(["compare", before, after, "--fail-above", "1.5"]) == 1
    sentence = capsys.readouterr().out
    print(sentence)  # for CI, which shows it
    assert f"regression: test, lenet5-cifar10, {PYTORCH}" in sentence
    assert re.search(r"forward, ms .* worse", sentence)
    assert main(["compare", after, before, "--fail-above", "1.5"]) == 0
