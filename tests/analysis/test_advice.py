"""Recommendations from synthetic records: the ranking, and questions without an answer."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from tests.analysis.record_maker import make_records
from tests.analysis.test_faults_table import process, report
from tests.analysis.test_faults_table import record as fault_record

from horizont.analysis.advice import Question, recommend
from horizont.config.topology import Topology
from horizont.errors import UserError
from horizont.records.files import write_table
from horizont.records.record import Record, read_record
from horizont.reporting.verdicts import (
    recommend_command,
    recommendation_rows,
    recommendation_sentence,
    recommendation_table,
)
from horizont.workflow.results import open_console, print_table

WORKLOAD = "lenet5-cifar10"


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    return make_records(tmp_path_factory.mktemp("records"), blocks=6)


CERTIFICATES = {WORKLOAD: "verified"}


def test_the_fastest_is_first_and_the_others_are_compared_with_it(records: list[Record]) -> None:
    recommendation = recommend(records, Question("lenet5", workers=2), CERTIFICATES)
    assert list(recommendation.ranking["value"]) == sorted(
        recommendation.ranking["value"], reverse=True
    )
    assert recommendation.ranking["versus_best"].iloc[0] == "the best"
    assert recommendation.ranking["versus_best"].iloc[-1].startswith("slower, factor ")
    slower = recommendation.ranking["versus_best"].str.extract("slower, factor (.*) to (.*)")
    assert (slower.dropna().astype(float) > 1.0).all(axis=None)
    assert "ms more" in recommendation.ranking["explanation"].iloc[-1]
    assert "ranks first" in recommendation_sentence(recommendation).text
    shown = recommendation_table(recommendation)
    assert len(shown.cells) == len(recommendation.ranking)
    assert shown.title == f"Systems by examples/s, from {recommendation.basis}"


def test_the_command_asks_the_same_question() -> None:
    asked = Question("lenet5", workers=2, rate_mbit=100.0, objective="time to loss")
    command = "horizont recommend --network lenet5 --workers 2 --threads 1 --link 100 --objective"
    assert f"{command} 'time to loss'" in recommend_command(asked).text
    assert "--weights 5e+06" in recommend_command(Question(weights=5e6)).text


def on_link(record: Record, rate_mbit: float | None, servers: int) -> Record:
    topology = {"launcher": "emulated", "workers": 2, "link": {"rate_mbit": rate_mbit}}
    if "parameter_server" in record.run.system.name:
        topology["servers"] = servers
    changed = {"topology": Topology.model_validate(topology)}
    return dataclasses.replace(
        record,
        run=record.run.model_copy(update=changed),
        environment={**record.environment, "capabilities": ["byte_counters"]},
    )


@pytest.mark.parametrize("objective", ["throughput", "time to loss"])
def test_different_links_and_servers_are_not_mixed(records: list[Record], objective: str) -> None:
    records_on_links = [on_link(record, 100.0, 1) for record in records]
    records_on_links += [on_link(record, None, 1) for record in records if record.run.block < 3]
    with_servers = [record for record in records if "parameter_server" in record.run.system.name]
    records_on_links += [
        on_link(record, 100.0, 2) for record in with_servers if record.run.block < 2
    ]
    recommendation = recommend(
        records_on_links, Question("lenet5", workers=2, objective=objective), CERTIFICATES
    )  # type: ignore[arg-type]
    assert set(recommendation.ranking["runs"]) == {6}
    assert "100 Mbit/s" in recommendation.basis


def test_a_few_steps_reach_no_loss_that_could_be_ranked(tmp_path: Path) -> None:
    records = make_records(tmp_path, blocks=1)
    for record in records:
        steps = record.steps().to_pandas().head(8)
        table = pa.Table.from_pandas(steps, preserve_index=False)
        write_table(record.folder / "steps.parquet", table)
    short = [read_record(record.folder) for record in records]
    question = Question("lenet5", workers=2, objective="time to loss")
    recommendation = recommend(short, question, CERTIFICATES)
    assert recommendation.ranking.empty
    assert recommendation.caveats == (
        f"No records apply: the runs on {WORKLOAD} have too few steps for a loss.",
    )


def without_samples_in_training(record: Record) -> Record:
    samples = record.samples().to_pandas()
    late = samples.assign(time_s=samples["time_s"] + 1e6)
    write_table(record.folder / "samples.parquet", pa.Table.from_pandas(late, preserve_index=False))
    return read_record(record.folder)


def test_a_system_without_samples_in_training_is_not_ranked_by_memory(tmp_path: Path) -> None:
    records = make_records(tmp_path, blocks=1)
    framework = records[0].run.system.framework
    short = [
        without_samples_in_training(record) if record.run.system.framework == framework else record
        for record in records
    ]
    question = Question("lenet5", workers=2, objective="memory")
    recommendation = recommend(short, question, CERTIFICATES)
    ranked = set(recommendation.ranking["system"])
    assert ranked
    assert not any(system.startswith(framework) for system in ranked)
    assert f"Too few steps for a sample: {framework}/" in " ".join(recommendation.caveats)
    assert len(recommendation_rows(recommendation)) == len(ranked)
    none = recommend([*map(without_samples_in_training, records)], question, CERTIFICATES)
    assert none.ranking.empty
    assert "have too few steps for a sample" in " ".join(none.caveats)


@pytest.mark.parametrize(("objective", "unit"), [("memory", "MiB"), ("time to loss", "s to")])
def test_other_objectives_rank_the_lowest_first(
    records: list[Record], objective: str, unit: str
) -> None:
    recommendation = recommend(
        records, Question("lenet5", workers=2, objective=objective), CERTIFICATES
    )  # type: ignore[arg-type]
    known = recommendation.ranking["value"].dropna()
    assert recommendation.unit.startswith(unit)
    assert list(known) == sorted(known)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Question("lenet5", workers=16), "no runs with 16 workers; the records have 2"),
        (Question("lenet5", workers=2, threads=4), "no runs with 4 threads"),
        (Question("resnet50", workers=2), "no runs of the network resnet50"),
        (Question(weights=25e6, workers=2), "times off"),
        (Question("lenet5", workers=2, objective="fault tolerance"), "a worker was killed"),
        (Question("lenet5", workers=2, rate_mbit=100.0), "link"),
    ],
)
def test_a_question_beyond_the_records_has_a_reason(
    records: list[Record], question: Question, message: str
) -> None:
    recommendation = recommend(records, question, CERTIFICATES)
    assert recommendation.ranking.empty
    assert message in recommendation.caveats[0]


def test_the_network_nearest_in_size_stands_in(records: list[Record]) -> None:
    recommendation = recommend(records, Question(weights=2 * 62_006, workers=2), CERTIFICATES)
    assert "the nearest in size" in recommendation.caveats[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"network": ""},
        {"network": "a", "weights": 3.0},
        {"network": "a", "workers": 0},
        {"network": "a", "rate_mbit": -1.0},
    ],
)
def test_an_invalid_question_is_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError):
        Question(**wrong)  # type: ignore[arg-type]


def killed(folder: Path, system: str, end_reason: str, steps: int, **failure: Any) -> Record:
    """Write the record of a run whose second worker is killed."""
    fault = {"kind": "kill", "target": "worker", "rank": 1}
    outcome = process("worker-0", "failed" if failure else "running", steps, **failure)
    return fault_record(folder, system, fault, report("worker-1", end_reason, outcome))


def test_systems_are_ranked_by_their_outcomes_after_the_loss_of_a_worker(tmp_path: Path) -> None:
    closed = {"ended_after_s": 2.0, "error_after_s": 1.0, "error": "RuntimeError: [/tcp.cc:5] end"}
    ring, servers = "pytorch/sync/allreduce", "mxnet/async/parameter_server"
    records = [
        killed(tmp_path / "a", ring, "all_exited", 3, **closed),
        killed(tmp_path / "b", ring, "stalled", 5),
        killed(tmp_path / "c", servers, "completed", 7),
    ]
    question = Question("lenet5", workers=2, objective="fault tolerance")
    recommendation = recommend(records, question, {})
    ranking = recommendation.ranking
    assert list(ranking["system"]) == [servers, ring]
    assert list(ranking["value"]) == [7, 4]
    assert list(ranking["runs"]) == [1, 2]
    assert ranking["versus_best"][1] == "aborts in 1 of 2, hangs in 1 of 2"
    first, second = recommendation_rows(recommend(records[:1] + records[2:], question, {}))
    assert list(first) == ["system", "steps completed", "outcome", "explanation", "runs"]
    assert (first["steps completed"], second["outcome"]) == ("7", "aborts")
    assert second["explanation"] == closed["error"]


def test_brackets_of_an_error_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    cells = pd.DataFrame({"explanation": ["RuntimeError: [/tcp.cc:5] closed"]})
    print_table(open_console(), cells)
    assert "RuntimeError: [/tcp.cc:5] closed" in capsys.readouterr().out


def test_runs_whose_updates_were_recorded_do_not_answer_if_others_do(
    records: list[Record],
) -> None:
    recorded = [
        dataclasses.replace(
            record,
            run=record.run.model_copy(
                update={"record_updates": "summary", "experiment": "staleness"}
            ),
        )
        for record in records
    ]
    question = Question("lenet5", workers=2)
    usual = recommend([*recorded, *records], question, CERTIFICATES)
    assert "staleness" not in usual.basis
    assert recommendation_sentence(usual).is_good
    alone = recommend(recorded, question, CERTIFICATES)
    assert "recording its updates slows it down" in " ".join(alone.caveats)
    assert not recommendation_sentence(alone).is_good
