"""Input pipelines: what a reader cannot do is refused before anything starts."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.conftest import ROOT, small_run

from horizont.config.base import parse_config
from horizont.config.experiment import Experiment
from horizont.config.run import Run
from horizont.errors import UserError

FILES = {"source": "files"}


@pytest.mark.parametrize(
    ("system", "given", "words"),
    [
        ("pytorch/local", {"cache": True}, "input.cache: true .* false with the source memory"),
        ("pytorch/local", {**FILES, "reader": "tar"}, "input.reader: 'tar' .* tf.data"),
        (
            "pytorch/local",
            {**FILES, "reader": "RecordIO"},
            "input.reader: 'RecordIO' .* DataLoader",
        ),
        ("pytorch/sync/allreduce", FILES, "input.source: 'files' .* memory for pytorch/sync"),
        (
            "pytorch/local",
            {**FILES, "prefetch": 2},
            "input.prefetch: 2 .* 0 for DataLoader without",
        ),
        (
            "pytorch/local",
            {**FILES, "workers": 2},
            "input.prefetch: 0 .* 1 to 64 for DataLoader wi",
        ),
        ("pytorch/local", {"shards": 3}, "input.shards: 3 .* 1 with the source memory"),
        (
            "pytorch/local",
            {**FILES, "reader": "DataLoader per image", "prefetch": 2},
            "input.prefetch: 2 .* 0 for DataLoader per image without",
        ),
        (
            "mxnet/local",
            {**FILES, "reader": "NDArrayIter"},
            "input.cache: false .* true for NDArrayIter",
        ),
        (
            "mxnet/local",
            {**FILES, "reader": "NDArrayIter", "cache": True, "workers": 1},
            "input.workers: 1 .* 0 for NDArrayIter",
        ),
    ],
)
def test_an_impossible_input_is_refused(system: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        parse_config(Run, small_run(system).model_dump() | {"input": given})


def test_input_batches_need_a_single_process() -> None:
    steps = {"warmup": 1, "timed": 1, "instrumented": 0, "input_batches": 3}
    with pytest.raises(UserError, match=r"steps.input_batches: 3 .* 0 for pytorch/sync/allreduce"):
        parse_config(Run, small_run("pytorch/sync/allreduce").model_dump() | {"steps": steps})


def test_a_reader_is_run_by_its_own_framework_only() -> None:
    readers = [{}, {**FILES, "reader": "DataLoader"}, {**FILES, "reader": "RecordIO"}]
    settings = swept(readers)
    inputs = {
        name: [fields["input"].label(name.split("/")[0]) for fields in settings.expand(name)]
        for name in ("pytorch/local", "mxnet/local", "tensorflow/local")
    }
    assert inputs == {
        "pytorch/local": ["memory", "DataLoader, no cache"],
        "mxnet/local": ["memory", "RecordIO, no cache"],
        "tensorflow/local": ["memory"],
    }


def test_a_reader_that_no_system_has_is_refused() -> None:
    with pytest.raises(UserError, match=r"sweep.input.reader: 'RecordIO'"):
        swept([{**FILES, "reader": "RecordIO"}], systems=["pytorch/local"])


def test_a_misspelt_key_of_a_sweep_is_refused() -> None:
    with pytest.raises(UserError, match=r"sweep.input.*chache"):
        swept([{**FILES, "chache": True}])


def swept(inputs: list[dict[str, Any]], **changes: Any) -> Experiment:
    """Return the quick profile's experiment with other inputs."""
    values = yaml.safe_load((ROOT / "params.yaml").read_text())["experiments"]["input"]
    return parse_config(Experiment, {**values, "sweep": {"input": inputs}, **changes}, "input")
