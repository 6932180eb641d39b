"""Settings are closed, typed, and refuse the impossible in one sentence."""

from __future__ import annotations

import copy
import shutil
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import set_value

from horizont.config.base import parse_config
from horizont.config.study import Study, read_study
from horizont.config.system import (
    DEFAULT,
    FRAMEWORKS,
    all_systems,
    framework_info,
    installed_version,
    parse_system,
)
from horizont.errors import UserError
from horizont.records.provenance import run_key
from horizont.workflow.book import planned_pages
from horizont.workflow.check import load_study
from horizont.workflow.paths import Paths
from horizont.workflow.profiles import apply_profile, profile_names

ROOT = Path(__file__).parents[2]


@pytest.fixture
def values() -> dict[str, Any]:
    return copy.deepcopy(yaml.safe_load((ROOT / "params.yaml").read_text()))


def refused(values: dict[str, Any]) -> str:
    with pytest.raises(UserError) as error:
        parse_config(Study, values)
    return str(error.value)


def test_the_committed_settings_are_the_quick_profile() -> None:
    assert (ROOT / "params.yaml").read_text() == (ROOT / "profiles/quick.yaml").read_text()


@pytest.mark.parametrize("name", profile_names(Paths(ROOT)))
def test_every_profile_can_be_used(name: str, tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    for profile in (ROOT / "profiles").glob("*.yaml"):
        (tmp_path / "profiles" / profile.name).write_text(profile.read_text())
    study = apply_profile(Paths(tmp_path), name)
    assert study.profile == name
    lines = (tmp_path / "params.yaml").read_text().splitlines()
    for line, following in pairwise(lines):
        # A comment that was merged to another place is not indented as what it precedes.
        if line.lstrip().startswith("#") and following:
            assert _indentation(following) == _indentation(line), line
    for experiment, settings in study.experiments.items():
        assert all(list(study.runs(experiment, workload)) for workload in settings.workloads)
    assert (ROOT / f"profiles/{name}.yaml").read_text().startswith(("#", "profile"))


def test_the_published_set_up_is_expressible() -> None:
    study = read_profile("ntua-2021")
    run = next(study.runs("distributed", "lenet5-cifar10"))
    assert (run.global_batch, run.local_batch, run.topology.workers) == (126, 42, 3)
    assert run.topology.sharding == "static_shards"
    assert run.steps.timed == 10 * 396


@pytest.mark.parametrize("name", ["networks", "jaeger-2018"])
def test_other_profiles_verify_as_many_steps_on_every_workload(name: str) -> None:
    study = read_profile(name)
    assert study.equivalence.schedule_for("lenet-fashion-mnist").at_steps[-1] == 100


def test_updates_are_recorded_where_they_show(values: dict[str, Any]) -> None:
    values["experiments"]["distributed"]["record_updates"] = "order"
    runs = list(parse_config(Study, values).runs("distributed", "lenet5-cifar10"))
    recording = {run.system.name for run in runs if run.record_updates == "order"}
    assert recording == {"mxnet/async/parameter_server"}


def test_experiments_are_found_by_workload(values: dict[str, Any]) -> None:
    study = parse_config(Study, values)
    assert study.experiments_on("lenet5-cifar10")[:2] == ["local", "distributed"]
    assert study.experiments_on("lenet-fashion-mnist") == ["input"]


def test_a_page_for_each_workload_and_view(values: dict[str, Any]) -> None:
    pages = [path.stem for _, path in planned_pages(parse_config(Study, values), Paths(ROOT))]
    about = [name for name in pages if "distributed" in name]
    views = [f"{view}-distributed-lenet5-cifar10" for view in ("verdicts", "resources")]
    assert about == ["distributed-lenet5-cifar10", *views]


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def read_profile(name: str) -> Study:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "profiles", Path(folder, "profiles"))
        return apply_profile(Paths(Path(folder)), name)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("data.sorce", "real", ["data.sorce", "source"]),
        ("data.source", "internet", ["data.source", "'internet'", "synthetic"]),
        (
            "experiments.distributed.topology.workers",
            0,
            ["experiments.distributed.topology.workers", "at least 1"],
        ),
        (
            "experiments.distributed.topology.servers",
            0,
            ["experiments.distributed.topology.servers", "at least 1"],
        ),
        (
            "experiments.distributed.global_batch",
            85,
            ["experiments.distributed.global_batch", "85", "2 workers"],
        ),
        ("experiments.distributed.local_batch", 41, ["experiments.distributed.local_batch", "42"]),
        (
            "experiments.distributed.systems",
            ["caffe/local"],
            ["experiments.distributed.system", "'caffe/local'"],
        ),
        (
            "experiments.local.systems",
            ["pytorch/local+fast"],
            ["experiments.local.system", "+fast", "channels_last"],
        ),
        (
            "experiments.local.systems",
            ["mxnet/local+xla"],
            ["mxnet/local+xla", "+dynamic_alloc"],
        ),
        (
            "experiments.local.systems",
            ["pytorch/local+"],
            ["experiments.local.system", "'pytorch/local+'"],
        ),
        (
            "experiments.distributed.systems",
            ["pytorch/sync/allreduce+compiled"],
            ["pytorch/sync/allreduce+compiled", "pytorch/local+compiled"],
        ),
        ("experiments.distributed.topology.addresses", ["a", "b", "c"], ["addresses", "at most 2"]),
        (
            "experiments.local.topology.workers",
            2,
            ["experiments.local.topology.workers", "1 for tensorflow/local"],
        ),
        ("equivalence.workloads", ["lenet5-mnist"], ["equivalence.workloads", "lenet5-mnist"]),
        ("equivalence.at_steps", [5, 1], ["equivalence.at_steps", "ascending"]),
        ("workloads.lenet5-cifar10.optimizer.name", "adamw", ["optimizer.name", "'adamw'"]),
        ("workloads.lenet5-cifar10.optimizer.momentun", 1, ["optimizer.momentun", "momentum"]),
        ("workloads.lenet5-cifar10.optimizer.momentum", 1, ["optimizer.momentum", "less than 1"]),
        ("workloads.lenet5-cifar10.optimizer.nesterov", True, ["nesterov", "without momentum"]),
        ("workloads.lenet5-cifar10.upscale", 0, ["upscale", "0"]),
        ("equivalence.replay", ["vgg"], ["equivalence.replay", "vgg", "lenet5-cifar10"]),
        ("equivalence.overrides.vgg", {"batch": 4, "at_steps": [1]}, ["vgg", "resnet18-cifar10"]),
        (
            "experiments.distributed.gradient_exchange",
            {"local_steps": 0},
            ["gradient_exchange.local_steps", "at least"],
        ),
        (
            "experiments.distributed.gradient_exchange",
            {"local_steps": 4},
            ["local_steps", "tensorflow/sync"],
        ),
        (
            "experiments.distributed.record_updates",
            "all",
            ["experiments.distributed.record_updates", "gradients"],
        ),
        (
            "experiments.distributed.workloads",
            ["vgg"],
            ["experiments.distributed.workloads", "vgg", "lenet5-cifar10"],
        ),
        ("seed", -1, ["seed", "-1"]),
    ],
)
def test_wrong_settings_are_named(
    values: dict[str, Any], path: str, value: object, words: list[str]
) -> None:
    set_value(values, path, value)
    message = refused(values)
    assert all(word in message for word in words), message
    assert "\n" not in message


def test_unreadable_settings_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a file that exists"):
        read_study(tmp_path / "params.yaml")
    broken = tmp_path / "params.yaml"
    broken.write_text("a: [1")
    with pytest.raises(UserError, match="valid YAML"):
        read_study(broken)
    broken.write_text("- 1")
    with pytest.raises(UserError, match="a mapping"):
        read_study(broken)


@pytest.mark.parametrize("name", all_systems())
def test_a_system_has_one_name(name: str) -> None:
    system = parse_system(name)
    assert system.name == name
    assert not {"/", "+"} & set(system.slug)


def test_names_as_paths_are_all_different() -> None:
    assert len({parse_system(name).slug for name in all_systems()}) == len(all_systems())


def test_every_build_is_some_systems() -> None:
    variants = {variant for name in FRAMEWORKS for variant in framework_info(name).variants}
    assert {parse_system(name).variant for name in all_systems()} == {DEFAULT, *variants}


def test_a_build_can_be_measured(values: dict[str, Any]) -> None:
    values["experiments"]["local"]["systems"] = ["pytorch/local", "pytorch/local+channels_last"]
    study = parse_config(Study, values)
    runs = list(study.runs("local", "lenet5-cifar10"))
    assert {run.trainer_name for run in runs} == {"pytorch", "pytorch+channels_last"}
    assert len({run_key(run, {}) for run in runs}) == len(runs)


def test_nothing_starts_without_the_compiler_that_a_build_needs(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if installed_version("pytorch") is None:
        pytest.skip("pytorch is not installed")
    values["experiments"]["local"]["systems"] = ["pytorch/local+compiled"]
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UserError, match=r"pytorch/local\+compiled.*no-such-compiler"):
        load_study(Paths(tmp_path))
    monkeypatch.setenv("CXX", sys.executable)
    assert load_study(Paths(tmp_path)).experiment("local").systems == ("pytorch/local+compiled",)


def test_a_build_for_images_is_refused_where_a_text_is_read(
    values: dict[str, Any], tmp_path: Path
) -> None:
    values["experiments"]["local"]["systems"] = ["pytorch/local+channels_last"]
    values |= {
        "datasets": ["ptb"],
        "equivalence": {"workloads": ["lstm-ptb"], "batch": 4, "at_steps": [1]},
    }
    for experiment in values["experiments"].values():
        experiment["workloads"] = ["lstm-ptb"]
    from_files = values["experiments"].pop("input")
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(UserError, match=r"channels_last.*lstm-ptb reads a text"):
        load_study(Paths(tmp_path))
    values["experiments"]["local"]["systems"] = ["pytorch/local"]
    values["experiments"]["input"] = from_files
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(
        UserError, match=r"experiments.input.sweep.input.source: 'files' .* reads a text"
    ):
        load_study(Paths(tmp_path))


def test_specifications_cannot_be_changed(values: dict[str, Any]) -> None:
    study = parse_config(Study, values)
    with pytest.raises(ValueError, match="frozen"):
        study.seed = 1  # type: ignore[misc]


def test_an_experiment_varies_its_settings(values: dict[str, Any]) -> None:
    systems = ["pytorch/local", "pytorch/sync/allreduce", "pytorch/sync/parameter_server"]
    values["experiments"]["distributed"] |= {
        "kind": "sweep",
        "systems": systems,
        "blocks": 1,
        "topology": {"launcher": "emulated", "workers": 2, "servers": 1},
        "sweep": {"workers": [2, 4], "servers": [1, 2], "local_batch": [8]},
    }
    shapes = [
        (run.system.name, run.topology.workers, run.topology.servers, run.global_batch)
        for run in parse_config(Study, values).runs("distributed", "lenet5-cifar10")
    ]
    local, ring, servers = systems
    assert shapes == [
        (local, 1, 0, 8),  # the baseline of all the others, once
        (ring, 2, 0, 16),
        (ring, 4, 0, 32),
        (servers, 2, 1, 16),
        (servers, 2, 2, 16),
        (servers, 4, 1, 32),
        (servers, 4, 2, 32),
    ]


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        ({"colour": [1]}, ["sweep", "colour", "link"]),
        ({"workers": []}, ["sweep.workers", "at least one"]),
        ({"workers": [5]}, ["global_batch", "84", "5 workers"]),
        ({"local_batch": [1], "global_batch": [2]}, ["local_batch", "one of them"]),
        ({"threads": list(range(1, 250))}, ["249 points", "200"]),
    ],
)
def test_points_that_make_no_sense_are_refused(
    values: dict[str, Any], sweep: dict[str, Any], words: list[str]
) -> None:
    values["experiments"]["distributed"] |= {"kind": "sweep", "sweep": sweep}
    message = refused(values)
    for word in words:
        assert word in message


def test_a_workload_has_steps_of_its_own(values: dict[str, Any]) -> None:
    own = {"warmup": 1, "timed": 3}
    values["experiments"]["local"] |= {
        "workloads": ["lenet5-cifar10", "lenet-fashion-mnist"],
        "overrides": {"lenet5-cifar10": {"steps": own}},
    }
    study = parse_config(Study, values)
    names = ("lenet5-cifar10", "lenet-fashion-mnist")
    overridden, others = (list(study.runs("local", name)) for name in names)
    assert {run.steps.timed for run in overridden} == {3}
    assert {run.steps.timed for run in others} == {60}


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"lenet5-cifar10": {"steps": {"warmup": 1}}}, ["steps.timed", "no default"]),
        ({"alexnet": {"steps": {"warmup": 1, "timed": 1}}}, ["overrides", "'alexnet'"]),
        (
            {"lenet5-cifar10": {"steps": {"warmup": 1, "timed": 1, "profiled": 2}}},
            ["steps.profiled", "2"],
        ),
    ],
)
def test_wrong_overrides_are_refused(
    values: dict[str, Any], overrides: dict[str, Any], words: list[str]
) -> None:
    values["experiments"]["distributed"]["overrides"] = overrides
    message = refused(values)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("kind", "sweep", ["experiments.local.kind", "training", "sweep is missing"]),
        ("kind", "benchmark", ["experiments.local.kind", "'benchmark'", "training"]),
        ("sweep", {"threads": [1, 2]}, ["kind", "sweep, since sweep is given"]),
        ("workloads", [], ["experiments.local.workloads", "at least 1"]),
        ("global_batch", None, ["global_batch", "local_batch"]),
        ("views", ["charts"], ["views", "'charts'", "operators"]),
    ],
)
def test_wrong_experiments_are_refused(
    values: dict[str, Any], path: str, value: object, words: list[str]
) -> None:
    values["experiments"]["local"][path] = value
    message = refused(values)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("path", "value", "new_key"),
    [
        ("study", ["lenet5-cifar10"], "equivalence.workloads"),
        ("theory", [], "chapters"),
        ("strong_scaling", {}, "experiments.strong_scaling"),
        ("incidents", {}, "experiments.faults"),
        ("equivalence.faults", [], "mutations"),
        ("equivalence.replays", [], "replay"),
        ("workloads.lenet5-cifar10.enlarge", 2, "upscale"),
        ("experiments.local.vary", {}, "sweep"),
        ("experiments.local.deadline_s", 3, "timeout_s"),
        ("experiments.local.evaluate_every", 3, "evaluation.every"),
        ("experiments.local.steps.bare", 3, "timed"),
        ("experiments.local.steps.drained", 3, "input_batches"),
        ("experiments.local.topology.engine", "local", "launcher"),
        ("experiments.local.topology.machines", 1, "hosts"),
        ("experiments.links.topology.host_cpus", 1, "cpus_per_host"),
    ],
)
def test_a_key_of_an_earlier_version_is_answered_with_the_new_one(
    values: dict[str, Any], path: str, value: object, new_key: str
) -> None:
    set_value(values, path, value)
    message = refused(values)
    assert f"{path}: '{path.split('.')[-1]}'" in message
    assert f"{new_key}, the new name" in message
