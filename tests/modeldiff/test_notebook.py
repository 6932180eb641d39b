"""The notebook that compares two models, and repairs one of them."""

from __future__ import annotations

import nbformat
import pytest

from horizont.workflow.notebooks import run_notebook
from horizont.workflow.paths import Paths


@pytest.mark.framework("pytorch", "tensorflow")
def test_the_notebook_of_two_models(study_folder: Paths) -> None:
    notebook = nbformat.read(run_notebook("diff", {}, study_folder), as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    before, after = (each["data"] for each in outputs if each["output_type"] == "execute_result")
    for number in range(1, 7):
        assert f"  {number}. " in before["text/plain"]
    assert "order of flattened features: GELU by erf, channels first" in before["text/plain"]
    assert "verdict: not the same: 6 differences, all explained" in before["text/plain"]
    assert "2 differences, all explained (2 by definition of the frameworks)" in after["text/plain"]
    assert "background-color" in before["text/html"]
    assert (study_folder.root / "data/models/port.py").exists()
