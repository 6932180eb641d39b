"""The start notebook with all frameworks, on tiny settings."""

from __future__ import annotations

import nbformat
import pytest

from horizont.analysis.throughput import metrics
from horizont.config.system import FRAMEWORKS, installed_version
from horizont.errors import UserError
from horizont.workflow.lab import quick_comparison
from horizont.workflow.notebooks import run_notebook
from horizont.workflow.paths import Paths
from horizont.workflow.publish import NO_CERTIFICATE

pytestmark = pytest.mark.framework("tensorflow", "pytorch", "mxnet")

TINY = {"batch": 8, "steps": 4, "blocks": 1}


def test_the_start_notebook(study_folder: Paths) -> None:
    executed = nbformat.read(run_notebook("start", TINY, study_folder), as_version=4)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    types = {"display_data", "execute_result", "stream"}
    assert {output["output_type"] for output in outputs} == types
    assert {output["name"] for output in outputs if "name" in output} == {"stdout"}
    text = str(outputs)
    installed = [name for name in FRAMEWORKS if installed_version(name)]
    assert f"{len(installed)} runs executed in" in text
    assert f"{len(FRAMEWORKS)} available before" in text, "the first controls show the runs above"
    assert "<progress" not in text
    assert "widget" not in text

    # The study has neither runs nor data of it.
    assert not (study_folder.root / "records").exists()
    assert not study_folder.prepared_sets.exists()

    before = {path: path.stat().st_mtime_ns for path in study_folder.root.rglob("result.json")}
    comparison = quick_comparison(**TINY, paths=study_folder)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(comparison.records) == len(before) == len(FRAMEWORKS)
    for name in installed:
        found = metrics(*comparison)[f"{name}/local"]
        assert (found["ok"], found["comparable"]) == (1, NO_CERTIFICATE)
        assert found["examples_per_s"] > 0
    losses = [record.result.final_loss for record in comparison.records if record.ok]
    assert max(losses) - min(losses) < 1e-4, "the same training in each framework"


def test_impossible_settings_are_refused_before_anything_starts(study_folder: Paths) -> None:
    with pytest.raises(UserError, match=r"network: 'vgg'"):
        quick_comparison(network="vgg", paths=study_folder)
    with pytest.raises(UserError, match=r"global_batch"):
        quick_comparison(batch=0, paths=study_folder)
    with pytest.raises(UserError, match=r"blocks: 0 is not possible; allowed: a number of at leas"):
        quick_comparison(blocks=0, paths=study_folder)
    with pytest.raises(UserError, match=r"batch: 100000 is not possible; allowed: at most \d,\d"):
        quick_comparison(batch=100_000, paths=study_folder)
    assert not list(study_folder.root.rglob("spec.json"))
