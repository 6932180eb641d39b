"""What is typed wrongly: one sentence that names the place, exit status 2, and nothing is lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import change_setting

from horizont.cli import main
from horizont.workflow.paths import Paths

LOCAL, DISTRIBUTED = "experiments.local", "experiments.distributed"
LENET = "workloads.lenet5-cifar10"

LINKS = {
    "kind": "sweep",
    "workloads": ["lenet5-cifar10"],
    "systems": ["pytorch/sync/allreduce"],
    "topology": {"launcher": "emulated", "workers": 2},
    "global_batch": 16,
    "steps": {"warmup": 1, "timed": 2},
}
READER = {"input": [{"source": "files", "reader": "tf.data"}]}
KILL = {"kind": "kill", "target": "worker", "at_step": 2}
ADAM = {"name": "adam", "learning_rate": 0.01}
ANCHOR = {"workload": "lenet5-cifar10", "system": "pytorch/local", "batch": 8}
ALEXNET = {"network": "alexnet", "dataset": "cifar10", "optimizer": {"learning_rate": 0.01}}

#: Path of a setting, its value, and words of the message.
SETTINGS: list[tuple[str, Any, str]] = [
    # Names, with the nearest right one.
    ("sed", 1, "sed: 'sed' .*did you mean 'seed'"),
    ("data.sorce", "real", "data.sorce: .*did you mean 'source'"),
    ("data.source", "reel", "data.source: 'reel' .*did you mean 'real'"),
    (
        f"{LENET}.dataset",
        "cifar-10",
        "dataset: 'cifar-10' .*datasets: cifar10 .did you mean 'cifar10'",
    ),
    (f"{LENET}.network", "lenet-5", "'lenet-5' .*did you mean 'lenet5'"),
    (f"{LENET}.network", None, "network: null .*text"),
    (f"{LENET}.optimiser", {}, "did you mean 'optimizer'"),
    (f"{LENET}.optimizer.name", "sdg", "optimizer.name: 'sdg' .*did you mean 'sgd'"),
    (f"{LENET}.optimizer.learning_rte", 1, "did you mean 'learning_rate'"),
    (f"{LOCAL}.system", ["pytorch/local"], "did you mean 'systems'"),
    (f"{LOCAL}.systems", ["pytorhc/local"], "'pytorhc/local'"),
    (f"{LOCAL}.systems", ["pytorch/locla"], "'pytorch/locla'"),
    (f"{LOCAL}.workloads", ["lenet5-cifar"], "'lenet5-cifar' .*lenet5-cifar10"),
    (f"{LOCAL}.kind", "trainning", "'trainning' .*did you mean 'training'"),
    (f"{LOCAL}.views", ["operator"], "'operator' .*did you mean 'operators'"),
    (f"{DISTRIBUTED}.topology.launcher", "slrum", "'slrum' .*did you mean 'slurm'"),
    (f"{DISTRIBUTED}.topology.placement", "apart", "'apart' .*colocated"),
    ("chapters", ["theory-1-neuron"], "'theory-1-neuron' .*did you mean 'theory-01-neuron'"),
    (f"{LOCAL}.systems", ["pytorch/local+compield"], "did you mean 'pytorch/local.compiled'"),
    (f"{LOCAL}.systems", ["jax/allreduce"], "local.systems: .*one of jax/local, jax/sync"),
    # Types.
    ("seed", True, "seed: true .*a number"),
    ("seed", "x", "seed: 'x' .*an integer"),
    ("seed", 1.5, "seed: 1.5 .*integer"),
    ("data.train_examples", "many", "train_examples: 'many' .*an integer"),
    ("data.mirror", 3, "data.mirror: 3 .*a path"),
    ("data.own", ["x"], r"data.own: \['x'\] .*a mapping"),
    ("workloads", [], r"workloads: \[\] .*a mapping"),
    ("datasets", "cifar10", "datasets: 'cifar10' .*a list"),
    (f"{LENET}.optimizer.learning_rate", "fast", "learning_rate: 'fast' .*a number"),
    (f"{LENET}.optimizer.nesterov", 3, "nesterov: 3 .*true or false"),
    (f"{LOCAL}.blocks", None, "blocks: null .*an integer"),
    (f"{LOCAL}.steps", 5, "steps: 5 .*a mapping of settings"),
    (f"{LOCAL}.topology.workers", True, "workers: true .*a number"),
    (LOCAL, None, "experiments.local: null .*a mapping of settings"),
    # Values out of range.
    ("seed", -1, "seed: -1 .*at least 0"),
    ("seed", 10**20, "seed: 10+ .*at most 2147483647"),
    (f"{LENET}.optimizer.learning_rate", 0, "learning_rate: 0 .*more than 0"),
    (f"{LENET}.optimizer.momentum", 1, "momentum: 1 .*less than 1"),
    (f"{LENET}.upscale", 9, "upscale: 9 .*at most 8"),
    (f"{LOCAL}.blocks", 0, "blocks: 0 .*at least 1"),
    (f"{LOCAL}.blocks", 1_000_000, "blocks: 1000000 .*at most 1000"),
    (f"{LOCAL}.steps.timed", -3, "steps.timed: -3 .*at least 1"),
    (f"{LOCAL}.timeout_s", 0, "timeout_s: 0 .*more than 0"),
    (f"{LOCAL}.systems", [], r"systems: \[\] .*at least 1"),
    (f"{DISTRIBUTED}.topology.workers", 65, "workers: 65 .*at most 64"),
    (f"{DISTRIBUTED}.topology.link", {"rate_mbit": 0}, "rate_mbit: 0 .*at least 1"),
    ("data.train_examples", 50_001, "train_examples: 50001 .*1 to 50000 for cifar10"),
    ("experiments", {}, "experiments: {} .*at least 1 entry"),
    ("workloads", {}, "workloads: {} .*at least 1 entry"),
    (
        f"{DISTRIBUTED}.topology.options",
        {"command": "ssh"},
        "topology.options.command: 'ssh' .*nothing with the launcher local; command is an option "
        "of the launcher command",
    ),
    ("profile", "../x", "profile: '../x' .*lower-case letters"),
    (
        f"{DISTRIBUTED}.server_layouts",
        {"mxnet/*": {"servers": "every"}},
        r"servers: 'every' .*each, or an integer from 1 to 64",
    ),
    (f"{LOCAL}.evaluation", {"examples": 501}, "evaluation.examples: 501 .*at most 500"),
    ("workloads.lenet5-cifar10", ALEXNET, "upscale: 1 .*at least 2 for alexnet on images of 32x32"),
    # Settings that contradict each other, or the data.
    (f"{LOCAL}.systems", ["pytorch/local", "pytorch/local"], "'pytorch/local' .*once"),
    (f"{LOCAL}.workloads", ["lenet5-cifar10", "lenet5-cifar10"], "'lenet5-cifar10' .*once"),
    (f"{LOCAL}.global_batch", 2001, "global_batch: 2001 .*at most 2000.*cifar10"),
    (f"{DISTRIBUTED}.global_batch", 85, "85 .*a multiple of the 2 workers"),
    (f"{DISTRIBUTED}.topology.hosts", 3, "hosts: 3 .*at most the 2 workers"),
    (f"{DISTRIBUTED}.topology.servers", 0, "servers: 0 .*at least 1"),
    (f"{DISTRIBUTED}.topology.pin_hosts", True, "pin_hosts"),
    (f"{DISTRIBUTED}.topology.link", {"rate_mbit": 10}, "link: .*emulated"),
    (f"{LOCAL}.topology.workers", 2, "workers: 2 .*1 for"),
    (f"{LOCAL}.sweep", {"threads": [1, 2]}, "sweep, since sweep is given"),
    (f"{LOCAL}.sweep", {"thread": [1]}, "'thread' .*did you mean 'threads'"),
    (f"{LOCAL}.overrides", {"lenet": {"blocks": 2}}, "'lenet' .*lenet5-cifar10"),
    (
        f"{DISTRIBUTED}.faults",
        [{"kind": "disconnect", "target": "worker"}],
        "distributed.kind: 'training' .*faults, since faults is given",
    ),
    (
        "experiments.links",
        LINKS | {"sweep": {"link": [{"rate_mbit": 0}]}},
        "links.sweep.link.rate_mbit: 0 .*at least 1$",
    ),
    (
        "experiments.links",
        LINKS | {"sweep": {"workers": [2, 3]}},
        "links.global_batch: 16 .*a multiple of the 3 workers",
    ),
    (
        "experiments.links",
        LINKS | {"sweep": {"global_batch": [24, "x"]}},
        "links.sweep.global_batch: 'x' .*an integer of at least 1",
    ),
    (
        "experiments.links",
        LINKS | {"sweep": {"local_batch": [0.5]}},
        "links.sweep.local_batch: 0.5 .*an integer of at least 1",
    ),
    (
        "experiments.links",
        LINKS | {"sweep": {"learning_rate": [0]}},
        "links.sweep.learning_rate: 0 .*more than 0",
    ),
    (
        "experiments.links",
        LINKS | {"kind": "input", "systems": ["pytorch/local"], "topology": {}, "sweep": READER},
        "links.sweep.input.reader: 'tf.data' .*one of .*DataLoader",
    ),
    ("equivalence.at_steps", [3, 1], "ascending"),
    ("equivalence.at_steps", [1, 10**9], "at_steps: 1000000000 .*numbers up to 1000000"),
    ("equivalence.batch", 10**7, "equivalence.batch: 10000000 .*at most 2000, as cifar10"),
    (
        "equivalence.overrides",
        {"lenet5-cifar10": {"batch": 3000, "at_steps": [1]}},
        "overrides.lenet5-cifar10.batch: 3000 .*at most 2000",
    ),
    (f"{LOCAL}.steps.timed", 10**9, "steps.timed: 1000000000 .*at most 1000000"),
    ("datasets", ["ptb"], "'cifar10' .*datasets: ptb"),
    ("datasets", ["cifar10", "ptb"], "datasets: 'ptb' .*equivalence.workloads: cifar10"),
    ("datasets", ["cifar10", "cifar10"], "datasets: 'cifar10' .*every name once"),
    (f"{LENET}.dataset", "ptb", "lenet5-cifar10.dataset: 'ptb' .*datasets: cifar10"),
    ("data.mirror", "no/such/folder", "data.mirror: 'no/such/folder' .*an existing folder"),
    (
        "data.own",
        {"x": {"kind": "image"}, "cifar10": {"kind": "text"}},
        "data.own: 'cifar10' .*another name",
    ),
    # Settings that would have no effect.
    ("data.mirror", "", "data.mirror: '' .*a path"),
    ("data.own", {"x": {"kind": "text", "size": 32}}, "own.x.size: 32 .*nothing for kind text"),
    ("data.own", {"x": {"kind": "text", "channels": 1}}, "own.x.channels: 1 .*nothing for kind te"),
    ("data.own", {"x": {"kind": "image", "words": 50}}, "own.x.words: 50 .*nothing for kind image"),
    ("data.own", {"x": {"kind": "text", "path": "no.txt"}}, "own.x.path: .*no.txt does not exist"),
    ("data.own", {"x": {"kind": "image", "path": ""}}, "own.x.path: '' .*a path"),
    ("data.own", {"x": {"kind": "image", "title": "a\nb"}}, "own.x.title: 'a.nb' .*one line"),
    (f"{LENET}.optimizer.beta1", 0.9, "optimizer.beta1: 0.9 .*nothing with sgd"),
    (f"{LENET}.optimizer.epsilon", 1e-8, "optimizer.epsilon: 1e-08 .*nothing with sgd"),
    (f"{LENET}.optimizer", ADAM | {"momentum": 0.9}, "optimizer.momentum: 0.9 .*0 with adam"),
    (f"{LENET}.optimizer", ADAM | {"nesterov": True}, "optimizer.nesterov: true .*false with adam"),
    (f"{LENET}.time_steps", 30, "time_steps: 30 .*nothing, as cifar10 has images"),
    ("workloads.lstm-ptb.upscale", 2, "lstm-ptb.upscale: 2 .*1, as ptb is a text"),
    ("equivalence.replay", ["lenet-fashion-mnist"], "replay: .*those of equivalence.workloads: le"),
    ("equivalence.mutations", ["lenet-fashion-mnist"], "mutations: .*those of equivalence.workloa"),
    ("equivalence.replay", ["lenet5-cifar10", "lenet5-cifar10"], "replay: 'lenet5-cifar10' .*once"),
    (
        "equivalence.workloads",
        ["lenet5-cifar10", "lenet5-cifar10"],
        "equivalence.workloads: .*once",
    ),
    ("chapters", ["theory-01-neuron", "theory-01-neuron"], "chapters: 'theory-01-neuron' .*once"),
    (
        "anchor",
        ANCHOR | {"steps": LINKS["steps"] | {"profiled": 2}},
        "anchor.steps.profiled: 2 .*0",
    ),
    (f"{LOCAL}.views", ["verdicts", "verdicts"], "views: 'verdicts' .*once"),
    (f"{LOCAL}.title", "  ", "local.title: '  ' .*one line of text"),
    (f"{LOCAL}.title", "one\ntwo", "local.title: 'one.ntwo' .*one line of text"),
    (f"{LOCAL}.title", "x" * 400, "local.title: 'x+.*at most 100 characters"),
    (f"{LOCAL}.record_updates", "order", "record_updates: 'order' .*none, but for pytorch/async"),
    (f"{LOCAL}.steps.input_batches", 60, "steps.input_batches: 60 .*0 for .* of kind training"),
    (f"{LOCAL}.stall_timeout_s", 500, "stall_timeout_s: 500.0 .*less than timeout_s, which is 120"),
    (f"{LOCAL}.topology.sharding", "static_shards", "sharding: 'static_shards' .*global_batches"),
    (f"{LOCAL}.topology.placement", "dedicated", "placement: 'dedicated' .*emulated"),
    (
        f"{DISTRIBUTED}.server_layouts",
        {"*": {"servers": 1}, "mxnet/*": {"servers": 2}},
        r"server_layouts: 'mxnet/\*' .*that no earlier one fits",
    ),
    (
        "experiments.links",
        LINKS | {"sweep": {"servers": [1, 2]}},
        r"links.sweep.servers: \[1, 2\] .*one value, as it changes nothing in pytorch/sync/allr",
    ),
    (
        "experiments.links",
        LINKS | {"sweep": {"link": [{}, {"latency_ms": 0}]}},
        "links.sweep.link: {latency_ms: 0} .*every value once",
    ),
    (
        "experiments.links",
        LINKS | {"systems": ["pytorch/local"], "topology": {}, "sweep": {"workers": [1, 2]}},
        "links.sweep.workers: 2 .*1 for pytorch/local",
    ),
    (
        "experiments.links",
        LINKS
        | {"sweep": {"local_batch": [8]}, "overrides": {"lenet5-cifar10": {"local_batch": 4}}},
        "overrides.lenet5-cifar10.local_batch: 4 .*null, as sweep has local_batch",
    ),
    (
        "experiments.links",
        LINKS | {"kind": "faults", "faults": [KILL, KILL]},
        r"links.faults\[1\]: {kind: 'kill', target: 'worker', at_step: 2} .*once",
    ),
]


@pytest.mark.parametrize(("path", "value", "pattern"), SETTINGS, ids=lambda value: repr(value)[:40])
def test_a_wrong_setting_is_one_sentence(
    study_folder: Paths, refused: Callable[..., str], path: str, value: object, pattern: str
) -> None:
    change_setting(study_folder, path, value)
    line = refused("config", "check")
    assert re.search(pattern, line), line
    assert len(line) < 500


def without_experiments(paths: Paths) -> None:
    values = yaml.safe_load(paths.params.read_text())
    del values["experiments"]
    paths.params.write_text(yaml.safe_dump(values))


def with_a_key_twice(paths: Paths) -> None:
    paths.params.write_text(paths.params.read_text() + "\nseed: 3\n")


def as_a_folder(paths: Paths) -> None:
    paths.params.unlink()
    paths.params.mkdir()


def written(content: bytes) -> Callable[[Paths], object]:
    return lambda paths: paths.params.write_bytes(content)


FILES: dict[str, tuple[Callable[[Paths], object], str]] = {
    "missing key": (without_experiments, "experiments: missing; .*no default"),
    "key twice": (with_a_key_twice, "line .*'seed' .*once"),
    "empty": (written(b""), "a mapping of settings"),
    "list": (written(b"- 1"), "a mapping of settings"),
    "not YAML": (written(b"a: [1"), "line 1: .*valid YAML: expected ',' or ']'"),
    "tabs": (written(b"a:\n\tb: 1"), "params.yaml, line 2: 'b: 1' .*valid YAML: found character"),
    "binary": (written(b"a: 1\n\xff\xfe\x00"), "params.yaml, line 2: 'byte 0xff' .*UTF-8"),
    "nested": (written(b"a: " + b"[" * 3000), "so many levels"),
    "folder": (as_a_folder, "a readable file"),
    "missing file": (lambda paths: paths.params.unlink(), "a file that exists"),
}


@pytest.mark.parametrize("name", FILES)
def test_an_unusable_settings_file_is_one_sentence(
    study_folder: Paths, refused: Callable[..., str], name: str
) -> None:
    break_file, pattern = FILES[name]
    break_file(study_folder)
    line = refused("config", "check")
    assert re.search(pattern, line), line


COMMANDS: list[tuple[list[str], str]] = [
    (["run", "lokal"], "'lokal' .*did you mean 'local'"),
    (["run", "local", "lenet5"], "'lenet5' .*lenet5-cifar10"),
    (["run", "local", "--dry-run", "lenet9"], "'lenet9'"),
    (["experiment", "lokal"], "did you mean 'local'"),
    (["views", "lokal"], "did you mean 'local'"),
    (["verify", "lenet5-cifar"], "did you mean 'lenet5-cifar10'"),
    (["verify", "lenet5-cifar10", "--mutate", "pytorch"], "FRAMEWORK=MUTATION"),
    (["verify", "lenet5-cifar10", "--mutate", "pytorch=paddin"], "did you mean 'padding'"),
    (["prepare", "cifar1"], "dataset: 'cifar1'"),
    (["notebook", "dta"], "'dta'"),
    (["notebook", "data", "-p", "dataset"], "NAME=VALUE"),
    (["config", "use", "quik"], "'quik' .*did you mean 'quick'"),
    (["config", "use", "quick", "--launcher", "slrum"], "'slrum' .*did you mean 'slurm'"),
    (["config", "use", "quick", "--launcher", "ssh"], "ssh and mpirun are values of topology.opt"),
    (["pack", "lokal"], "'lokal'"),
    (["unpack", "local", "away"], "local"),
    (["compare", "no-records", "records"], "no-records"),
    (["chaos", "--launcher", "locl"], "'locl' .*did you mean 'local'"),
    (["doctor", "--seconds", "-1"], "--seconds: -1.0"),
    (["recommend", "--network", "lenet55"], "--network: 'lenet55' .*did you mean 'lenet5'"),
    (["recommend", "--weights", "-5"], "--weights: -5.0 .*a number above 0"),
    (["recommend", "--workers", "2"], "--network: '' .*a number of weights"),
    (["recommend", "--network", "lenet5", "--workers", "0"], "--workers: 0 .*at least 1"),
    (["reproduce", "nothing"], "experiment: 'nothing'"),
    (["watch", "nothing"], "run: 'nothing' .*the path of a run"),
    (["unpack", "local", "params.yaml"], "local"),
    (["watch", "--records", "no-records", "--once"], "--records: 'no-records' .*that exists"),
    (["monitor", "--hz", "0", "--", "true"], "--hz: 0.0"),
    (["run"], "Missing argument 'experiment' .see `horizont run --help`"),
    (["doctor", "--second", "1"], "No such option: --second .*--seconds.* .see `horizont doctor"),
    (
        ["doctor", "--seconds", "x"],
        "--seconds: 'x' is not possible; allowed: a number .see `horizont doctor --help`",
    ),
    (["rin"], "No such command 'rin'.* .see `horizont --help`"),
    (["config", "sbatch", "--minutes", "x"], "--minutes: 'x' .*: an integer .see"),
    (["chaos", "--cases", "0"], "--cases: 0 .*: at least 1 .see"),
    (["recommend", "--weights", "inf"], "--weights: inf .*not infinite"),
    (["repro", "lokal"], "DVC"),
    (["config", "chek"], "No such command 'chek'.* .see `horizont config --help`"),
]


@pytest.mark.parametrize(("words", "pattern"), COMMANDS, ids=lambda value: " ".join(value)[:40])
def test_a_wrong_argument_is_one_sentence(
    refused: Callable[..., str], words: list[str], pattern: str
) -> None:
    line = refused(*words)
    assert re.search(pattern, line), line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_one_sentence(
    study_folder: Paths, refused: Callable[..., str]
) -> None:
    study_folder.root.chmod(0o555)
    try:
        assert "a writable folder with free space" in refused("config", "use", "quick")
    finally:
        study_folder.root.chmod(0o755)


def renamed(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        (renamed("lenet5-cifar10", "../../x"), "workloads: '../../x' .*letters, digits"),
        (renamed("lenet5-cifar10", "x" * 65), "workloads: .*at most 64"),
        (renamed("  local:", "  größe:"), "experiments: 'größe' .*lower-case letters"),
        (renamed("  local:", "  replay:"), "experiments: 'replay' .*no folder of the project"),
    ],
)
def test_a_name_that_is_no_folder_is_one_sentence(
    study_folder: Paths, refused: Callable[..., str], change: Callable[[str], str], pattern: str
) -> None:
    text = study_folder.params.read_text(encoding="utf-8")
    assert change(text) != text
    study_folder.params.write_text(change(text), encoding="utf-8")
    line = refused("config", "check")
    assert re.search(pattern, line), line


def test_values_of_a_sweep_are_different(study_folder: Paths, refused: Callable[..., str]) -> None:
    change_setting(study_folder, f"{LOCAL}.sweep", {"threads": [1, 2, 1]})
    assert re.search("sweep.threads: 1 .*every value once", refused("config", "check"))


def test_an_anchor_without_blocks_is_one_sentence(
    study_folder: Paths, refused: Callable[..., str]
) -> None:
    values = yaml.safe_load(study_folder.params.read_text())
    values["anchor"] = ANCHOR | {"steps": LINKS["steps"]}
    for experiment in values["experiments"].values():
        experiment["anchored"] = False
    study_folder.params.write_text(yaml.safe_dump(values))
    assert re.search("anchor: .*null, as no experiment is anchored", refused("config", "check"))


def test_paths_are_checked_by_every_command_that_reads_data(
    study_folder: Paths, refused: Callable[..., str]
) -> None:
    change_setting(study_folder, "data.mirror", "no/such/folder")
    assert "data.mirror: 'no/such/folder'" in refused("prepare", "cifar10")
    change_setting(study_folder, "data", {"own": {"x": {"kind": "text", "path": "no.txt"}}})
    assert "data.own.x.path: " in refused("prepare", "cifar10")


def test_a_full_disk_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    command = f"'{Path(sys.executable).parent}/horizont' config list > /dev/full"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: the output: No space left on device\n")


def test_comments_are_edits_too(study_folder: Paths) -> None:
    assert main(["config", "use", "tiny"]) == 0
    text = study_folder.params.read_text() + "# measured on the new machine\n"
    study_folder.params.write_text(text)
    assert main(["config", "use", "quick"]) == 0
    assert study_folder.params.with_name("params.edited.yaml").read_text() == text


def test_edited_settings_are_copied_before_a_profile_replaces_them(
    study_folder: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    def copies() -> list[str]:
        return sorted(path.name for path in study_folder.root.glob("params.edited*"))

    assert main(["config", "use", "quick", "--launcher", "slurm"]) == 0
    assert main(["config", "use", "tiny"]) == 0
    assert copies() == []
    for seed in (5, 6):
        change_setting(study_folder, "seed", seed)
        edited = study_folder.params.read_text()
        capsys.readouterr()
        assert main(["config", "use", "tiny"]) == 0
        name = "params.edited.yaml" if seed == 5 else "params.edited-2.yaml"
        assert name in capsys.readouterr().out
        assert (study_folder.root / name).read_text() == edited
    assert copies() == ["params.edited-2.yaml", "params.edited.yaml"]
    # A profile that does not exist replaces nothing.
    change_setting(study_folder, "seed", 7)
    for wrong in (["tinny"], ["tiny", "--launcher", "slurn"]):
        assert main(["config", "use", *wrong]) == 2
        assert capsys.readouterr().out == ""
    assert copies() == ["params.edited-2.yaml", "params.edited.yaml"]
