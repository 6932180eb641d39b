"""The page of claims: its sentences are built from the verdicts, and a check finds deviations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from horizont.analysis.claims.judge import claim_verdicts, published_vs_measured
from horizont.reporting.claims import (
    FOLDER,
    check_page,
    claim_counts,
    claim_html,
    claim_table,
    claim_text,
    claim_texts,
    published_vs_measured_figures,
)
from horizont.reporting.figures.published import claim_grid

WORKLOAD = "lenet5-cifar10"
ID = "N31"


@pytest.fixture(scope="module")
def judged(records):
    return claim_verdicts(records, {WORKLOAD: "verified"})


def page(judged: list[dict[str, Any]], out: Path, prose: str = "") -> Path:
    """Write the page as an executed notebook."""
    shown = [claim_counts(judged), claim_table(judged), claim_grid(judged)]
    shown += [claim_texts(judged, name) for name in ("Jaeger 2018", "NTUA 2021", "KTH 2018")]
    cells = [nbformat.v4.new_markdown_cell(f"# Published and measured\n\n{prose}")]
    for value in shown:
        output = nbformat.v4.new_output("display_data", value._repr_mimebundle_())
        cells.append(nbformat.v4.new_code_cell("show", outputs=[output]))
    path = out / "claims.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def names(judged):
    return {name for claim in judged for name in claim["records"]}


def changed(judged, **parts):
    """Return a copy of the verdicts with one claim changed."""
    copied = json.loads(json.dumps(judged))
    claim = next(claim for claim in copied if claim["id"] == ID)
    claim.update({k: v for k, v in parts.items() if k in claim})
    claim["parts"][0].update({k: v for k, v in parts.items() if k in claim["parts"][0]})
    return copied


def test_a_page_of_the_verdicts_agrees_with_them(judged, tmp_path):
    prose = f"{ID} is {next(c['verdict'] for c in judged if c['id'] == ID)} here."
    assert check_page(page(judged, tmp_path, prose), judged, {FOLDER: names(judged)}) == []


@pytest.mark.parametrize(
    "change", [{"verdict": "reversed"}, {"value": 9.87}, {"published": 3.3}, {"n": 7}]
)
def test_another_verdict_or_value_is_found(judged, tmp_path, change):
    (error, *_) = check_page(
        page(judged, tmp_path), changed(judged, **change), {FOLDER: names(judged)}
    )
    assert ID in error or "counts" in error


def test_prose_with_another_verdict_is_found(judged, tmp_path):
    path = page(judged, tmp_path, f"Indeed {ID} is\nreversed today.")
    (error,) = check_page(path, judged, {FOLDER: names(judged)})
    assert error.startswith(f"{ID}: the page says reversed, the records say")


def test_a_claim_that_names_another_does_not_state_its_verdict(judged, tmp_path):
    copied = json.loads(json.dumps(judged))
    claim = next(claim for claim in copied if claim["id"] == "J16")
    assert "J09" in claim["claim"]
    claim["verdict"] = "not settled"
    assert check_page(page(copied, tmp_path), copied, {FOLDER: names(copied)}) == []


def test_a_value_without_a_record_is_found(judged, tmp_path):
    path = page(judged, tmp_path)
    missing = sorted(names(judged))[0]
    errors = check_page(path, judged, {FOLDER: names(judged) - {missing}})
    assert errors
    assert all(f"the record {missing} does not exist" in error for error in errors)
    without_records = changed(judged, records=[])
    for available in (names(judged), None):
        errors = check_page(path, without_records, {FOLDER: available})
        assert any("has no record" in error for error in errors)
    assert check_page(path, judged, {}) == [], "a clone has the report without the records"


def test_a_claim_that_is_not_shown_is_found(judged, tmp_path):
    path = page([claim for claim in judged if claim["id"] != "K46"], tmp_path)
    errors = check_page(path, judged, {FOLDER: names(judged)})
    assert "K46: the page does not show it" in errors


def test_a_claim_states_value_interval_and_threshold(judged):
    text = claim_text(next(claim for claim in judged if claim["id"] == ID))
    assert "published 1.6" in text
    assert "3 blocks, level 95%" in text
    assert "Evidence: D (an analogue" in text
    assert "Intervals: 95%." in text
    assert "must be above 1.26" in text


def test_one_record_and_one_command_are_counted_as_one(judged):
    cost = {"experiment": "local", "workload": "lenet5-cifar10", "runs": 3, "minutes": 1.0}
    cost |= {"memory_mib": None, "disk_mib": 0.5}
    page = claim_html({**judged[0], "records": ["a"], "repetition": [cost]})
    assert "<summary>1 record</summary>" in page
    assert "<summary>1 command to run them again</summary>" in page
    assert "<summary>2 records</summary>" in claim_html({**judged[0], "records": ["a", "b"]})


def test_published_and_measured_times_share_one_unit(records):
    table = published_vs_measured(WORKLOAD, records)
    ends = table.groupby(["system", "origin"])["fraction"].sum()
    for time in ("published", "measured"):
        assert ends["pytorch/sync/allreduce", time] == pytest.approx(1.0)
    assert ends["mxnet/sync/parameter_server", "published"] == pytest.approx(
        197.29 / 110.91, rel=1e-3
    )
    assert ("mxnet/async/parameter_server", "measured") not in ends  # all its runs failed


def test_published_and_measured_times_are_plotted_and_others_named(records):
    by_workload = {WORKLOAD: records, "lenet-fashion-mnist": []}
    figure, message = published_vs_measured_figures(by_workload).items
    assert "no value" in figure.svg()
    assert "Fashion-MNIST" in message.text
