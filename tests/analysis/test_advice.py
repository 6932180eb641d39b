"""Advice on made-up records: the ranking, and where the records do not reach."""

from __future__ import annotations

import dataclasses

import pytest
from tests.analysis.record_maker import make_records

from horizont.analysis.advice import Question, recommend
from horizont.config.topology import Topology
from horizont.errors import UserError
from horizont.records.record import Record
from horizont.reporting.verdicts import recommendation_sentence, recommendation_table

WORKLOAD = "lenet5-cifar10"


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    return make_records(tmp_path_factory.mktemp("records"), blocks=6)


PROOFS = {WORKLOAD: "verified"}


def test_the_fastest_comes_first_with_the_distance_of_the_others(records: list[Record]) -> None:
    advice = recommend(records, Question("lenet5", workers=2), PROOFS)
    assert list(advice.ranking["value"]) == sorted(advice.ranking["value"], reverse=True)
    assert advice.ranking["versus_best"].iloc[0] == "the best"
    assert advice.ranking["versus_best"].iloc[-1].startswith("slower: by ")
    assert "ms more" in advice.ranking["explanation"].iloc[-1]
    assert "comes first" in recommendation_sentence(advice).text
    assert len(recommendation_table(advice).cells) == len(advice.ranking)


def on_link(record: Record, rate_mbit: float | None, servers: int) -> Record:
    topology = {"launcher": "emulated", "workers": 2, "link": {"rate_mbit": rate_mbit}}
    if "parameter_server" in record.run.system.name:
        topology["servers"] = servers
    shape = Topology.model_validate(topology)
    return dataclasses.replace(record, run=record.run.model_copy(update={"topology": shape}))


@pytest.mark.parametrize("objective", ["throughput", "time to loss"])
def test_what_differs_in_more_than_the_system_is_not_mixed(
    records: list[Record], objective: str
) -> None:
    mixed = [on_link(record, 100.0, 1) for record in records]
    mixed += [on_link(record, None, 1) for record in records if record.run.block < 3]
    served = [record for record in records if "parameter_server" in record.run.system.name]
    mixed += [on_link(record, 100.0, 2) for record in served if record.run.block < 2]
    advice = recommend(mixed, Question("lenet5", workers=2, objective=objective), PROOFS)  # type: ignore[arg-type]
    assert set(advice.ranking["runs"]) == {6}
    assert "100 Mbit/s" in advice.basis


@pytest.mark.parametrize(("objective", "unit"), [("memory", "MiB"), ("time to loss", "s to")])
def test_other_wishes_rank_from_the_least(records: list[Record], objective: str, unit: str) -> None:
    advice = recommend(records, Question("lenet5", workers=2, objective=objective), PROOFS)  # type: ignore[arg-type]
    known = advice.ranking["value"].dropna()
    assert advice.unit.startswith(unit)
    assert list(known) == sorted(known)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (Question("lenet5", workers=16), "no runs with workers 16; the records have 2"),
        (Question("lenet5", workers=2, threads=4), "no runs with threads 4"),
        (Question("resnet50", workers=2), "no runs of the network resnet50"),
        (Question(weights=25e6, workers=2), "times off"),
        (Question("lenet5", workers=2, objective="fault tolerance"), "a worker was killed"),
        (Question("lenet5", workers=2, rate_mbit=100.0), "link"),
    ],
)
def test_it_says_where_the_records_do_not_reach(
    records: list[Record], question: Question, said: str
) -> None:
    advice = recommend(records, question, PROOFS)
    assert advice.ranking.empty
    assert said in advice.caveats[0]


def test_a_network_of_another_size_is_answered_for_by_a_near_one(records: list[Record]) -> None:
    advice = recommend(records, Question(weights=2 * 62_006, workers=2), PROOFS)
    assert "the nearest in size" in advice.caveats[0]


@pytest.mark.parametrize(
    "wrong",
    [{"network": ""}, {"network": "a", "weights": 3.0}, {"network": "a", "workers": 0}],
)
def test_a_question_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError):
        Question(**wrong)  # type: ignore[arg-type]
