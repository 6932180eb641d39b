"""The order of runs: randomised blocks, the same for the same seed."""

from __future__ import annotations

from pathlib import Path

from horizont.config.study import read_study
from horizont.workflow.measure import randomise_blocks

STUDY = read_study(Path(__file__).parents[2] / "params.yaml")
SYSTEMS = STUDY.experiment("distributed").systems


def test_every_block_holds_every_system_once() -> None:
    runs = list(STUDY.runs("distributed", "lenet5-cifar10"))
    ordered = randomise_blocks(runs, STUDY.seed)
    assert sorted(map(repr, ordered)) == sorted(map(repr, runs))
    size = len(SYSTEMS)
    for start in range(0, len(ordered), size):
        block = ordered[start : start + size]
        assert {run.system.name for run in block} == set(SYSTEMS)
        assert {run.block for run in block} == {start // size}


def test_the_order_differs_by_block_and_seed_and_repeats() -> None:
    runs = list(STUDY.runs("distributed", "lenet5-cifar10"))
    ordered = randomise_blocks(runs, 1)
    size = len(SYSTEMS)
    blocks = {
        tuple(run.system.name for run in ordered[start : start + size])
        for start in range(0, len(ordered), size)
    }
    assert len(blocks) > 1
    assert randomise_blocks(runs, 1) == ordered
    assert randomise_blocks(runs, 2) != ordered
