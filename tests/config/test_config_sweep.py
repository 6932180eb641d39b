"""Sweeps, overrides and server layouts: which runs an experiment consists of."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.conftest import ROOT

from horizont.config.base import parse_config
from horizont.config.run import Run
from horizont.config.study import Study
from horizont.errors import UserError

ASYNC = ["tensorflow/async/parameter_server", "mxnet/async/parameter_server"]


def study_with(**changes: Any) -> Study:
    values = yaml.safe_load((ROOT / "params.yaml").read_text())
    experiment = {
        "kind": "sweep",
        "workloads": ["lenet-fashion-mnist"],
        "systems": ASYNC,
        "topology": {"launcher": "emulated", "servers": 1, "cpus_per_host": 0.5},
        "local_batch": 8,
        "sweep": {"workers": [1, 3]},
        "steps": {"warmup": 1, "timed": 2},
        **changes,
    }
    return parse_config(Study, {**values, "experiments": {"one": experiment}})


def runs_of(study: Study, workload: str = "lenet-fashion-mnist") -> list[Run]:
    return list(study.runs("one", workload))


def test_a_swept_rate_and_limit_belong_to_the_workload_of_the_run() -> None:
    study = study_with(sweep={"learning_rate": [0.05, 0.1], "initial_limit": [None, 0.01]})
    found = [
        (run.workload.optimizer.learning_rate, run.workload.initial_limit)
        for run in runs_of(study)
        if run.system.framework == "mxnet"
    ]
    assert found == [(0.05, None), (0.05, 0.01), (0.1, None), (0.1, 0.01)]
    assert study.workload("lenet-fashion-mnist").optimizer.learning_rate == 0.05
    assert study.swept_learning_rates("lenet-fashion-mnist") == (0.1,)


def test_a_wrong_rate_is_refused() -> None:
    with pytest.raises(UserError, match=r"optimizer.learning_rate: -1"):
        runs_of(study_with(sweep={"learning_rate": [-1]}))


@pytest.mark.parametrize(("per_block", "seeds"), [(False, {2021}), (True, {2021, 2022, 2023})])
def test_each_block_may_have_a_seed_of_its_own(per_block: bool, seeds: set[int]) -> None:
    runs = runs_of(study_with(blocks=3, seed_per_block=per_block))
    assert {run.seed for run in runs} == seeds
    assert all(run.seed == 2021 + run.block * per_block for run in runs)


def test_a_server_layout_applies_to_the_systems_of_its_pattern() -> None:
    layouts = {
        "mxnet/*": {"servers": "each"},
        "*/async/*": {"servers": 2, "placement": "dedicated"},
    }
    runs = runs_of(study_with(server_layouts=layouts))
    found = [
        (run.system.framework, run.topology.workers, run.topology.servers, run.topology.placement)
        for run in runs
    ]
    assert found == [
        ("tensorflow", 1, 2, "dedicated"),
        ("tensorflow", 3, 2, "dedicated"),
        ("mxnet", 1, 1, "colocated"),
        ("mxnet", 3, 3, "colocated"),
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"server_layouts": {"jax/*": {}}}, r"server_layouts: 'jax/\*' .* a pattern of tensorflow"),
        (
            {"server_layouts": {"mxnet/*": {"servers": "all"}}},
            r"server_layouts.mxnet/\*.servers: 'all' .* each, or an integer from 1 to 64",
        ),
        ({"topology": {"pin_hosts": True}}, "pin_hosts: true .* false without cpus_per_host"),
        ({"overrides": {"lenet-fashion-mnist": {"blocks": 0}}}, "blocks: 0"),
        (
            {"overrides": {"lenet-fashion-mnist": {"systems": ["x"]}}},
            "overrides.lenet-fashion-mnist.systems: 'x'",
        ),
        ({"overrides": {"lenet-fashion-mnist": {"hosts": 1}}}, "hosts"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        study_with(**changes)


def test_a_workload_may_have_other_systems_blocks_and_batches() -> None:
    override = {"systems": ["pytorch/async/parameter_server"], "blocks": 2, "global_batch": 6}
    study = study_with(
        workloads=["lenet-fashion-mnist", "lenet5-cifar10"],
        overrides={"lenet5-cifar10": override},
    )
    assert {run.local_batch for run in runs_of(study)} == {8}
    other = runs_of(study, "lenet5-cifar10")
    assert {run.system.framework for run in other} == {"pytorch"}
    assert [(run.block, run.global_batch) for run in other] == [(0, 6), (0, 6), (1, 6), (1, 6)]
    assert {system.framework for system in study.systems()} == {"tensorflow", "mxnet", "pytorch"}
