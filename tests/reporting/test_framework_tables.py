"""The framework tables: published data, answers of real processes, and failures."""

from __future__ import annotations

import pytest

from horizont.analysis.surveys import read_surveys, run_outcomes
from horizont.config.system import FRAMEWORKS
from horizont.reporting.frameworks import (
    NOT_SURVEYED,
    backend_table,
    criteria_table,
    historical_table,
    sync_table,
)
from horizont.reporting.labels import framework_label
from horizont.workflow import check

FAILED = {name: {"failed": "no answer"} for name in FRAMEWORKS}
PS = "mxnet/async/parameter_server"


def test_every_historical_framework_has_a_source():
    found = read_surveys().historical
    assert {"Theano", "CNTK", "Deeplearning4j", "Torch7", "Caffe"} <= set(found)
    assert {"Caffe2", "Chainer", "DSSTNE"} <= set(found)
    assert all(each.source.startswith("http") for each in found.values())
    assert len(historical_table().cells) == len(found)


def test_runs_are_counted_and_failures_have_reasons(records):
    table = run_outcomes(records).set_index("system")
    assert table.loc["pytorch/sync/allreduce", ["ok", "planned"]].tolist() == [3, 3]
    assert table.loc[PS, "ok"] == 0
    assert "address already in use" in table.loc[PS, "reason"]
    shown = sync_table(FAILED, records).cells
    assert shown["runs here"].str.startswith("0 of 3").sum() == 1
    assert (shown["native"] == "not tested").all()
    assert set(shown["framework"]) == {framework_label(name) for name in FRAMEWORKS}
    assert (shown["2021"][shown["framework"] == "JAX"] == NOT_SURVEYED).all()


def test_a_framework_without_an_answer_is_not_tested():
    today = [c for c in criteria_table(FAILED).cells if c.endswith("today")]
    assert (criteria_table(FAILED).cells[today] == "not tested: no answer").all(axis=None)
    backends = backend_table(FAILED).cells
    assert (backends["today"] == "not tested").all()
    assert len(backends) == len(FRAMEWORKS)


@pytest.mark.framework
def test_an_installed_framework_answers_in_its_own_process(monkeypatch):
    monkeypatch.setattr(check, "FRAMEWORKS", ["pytorch"])
    answers = check.query_features()
    assert answers["pytorch"]["features"]["machines"]["available"]
    assert not answers["pytorch"]["features"]["async"]["available"]


def test_a_framework_that_does_not_start_has_failed(monkeypatch):
    monkeypatch.setattr(check, "FRAMEWORKS", ["pytorch"])
    monkeypatch.setattr(check, "FEATURES_MODULE", "horizont.no_such_module")
    assert "no_such_module" in check.query_features()["pytorch"]["failed"]
