"""Which runs decide a claim, and how close they are to the published ones."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from claim_maker import (
    CLAIM,
    FOUR,
    MX,
    PT,
    RATIO,
    VERIFIED,
    WORKLOAD,
    make_runs,
    on_cpus,
    only_part,
    verdict,
    with_accuracy,
    with_result,
)

from horizont.analysis.claims.evidence import Evidence
from horizont.analysis.claims.judge import claim_verdicts
from horizont.analysis.claims.observations import observe, predict
from horizont.analysis.claims.rules import parse_rules
from horizont.config.study import read_study
from horizont.errors import UserError
from horizont.records.files import write_json, write_table
from horizont.records.record import Record, read_record
from horizont.records.results import RunResult
from horizont.workflow.paths import Paths
from horizont.workflow.profiles import apply_profile

PROFILES = Path(__file__).parents[2] / "profiles"
PT_PS = "pytorch/sync/parameter_server"
THREE = (1.0,) * 3
HOSTS = {"launcher": "emulated", "link": {"rate_mbit": 2000}}


def copied(record: Record, name: str) -> Record:
    """Copy a record under another name."""
    shutil.copytree(record.folder, record.folder.with_name(name))
    return read_record(record.folder.with_name(name))


def test_two_runs_of_one_block_are_an_error(tmp_path: Path) -> None:
    records = make_runs(tmp_path, PT, THREE) + make_runs(tmp_path, MX, THREE)
    again = copied(records[1], "again")
    with pytest.raises(UserError, match="again") as error:
        verdict(RATIO, [*records, again])
    assert records[1].folder.name in str(error.value)


@pytest.mark.parametrize("profile", sorted(path.stem for path in PROFILES.glob("*.yaml")))
def test_no_profile_has_two_runs_of_one_setting_and_block(
    study_folder: Paths, profile: str
) -> None:
    apply_profile(study_folder, profile)
    study = read_study(study_folder.params)
    records = [
        Record(Path(str(number)), run, {}, RunResult(status="ok"))
        for name, experiment in study.experiments.items()
        for workload in experiment.workloads
        for number, run in enumerate(study.runs(name, workload))
    ]
    assert Evidence(records, dict.fromkeys(study.workloads, "verified")).observations


def test_a_block_that_was_measured_twice_counts_with_the_undisturbed_run(tmp_path: Path) -> None:
    records = make_runs(tmp_path, PT, (1.0, 9.0, 1.0)) + make_runs(tmp_path, MX, THREE)
    slow = with_result(records[1], disturbed=True)
    (quiet,) = make_runs(tmp_path, PT, (1.0,), block=1)
    found = only_part(verdict(RATIO, [records[0], slow, quiet, *records[2:]]))
    assert found["value"] == pytest.approx(1.0, abs=0.05)
    assert quiet.folder.name in found["records"]
    assert found["n"] == 3


def test_times_of_two_machines_are_not_compared(tmp_path: Path) -> None:
    ours = make_runs(tmp_path, PT, THREE)
    theirs = [
        replace(record, environment={**record.environment, "provenance": {"machine": "Another"}})
        for record in make_runs(tmp_path, MX, THREE)
    ]
    assert only_part(verdict(RATIO, [*ours, *theirs]))["verdict"] == "not testable"
    ours = [replace(record, environment=theirs[0].environment) for record in ours]
    assert only_part(verdict(RATIO, [*ours, *theirs]))["n"] == 3


def test_disturbed_runs_decide_nothing(tmp_path: Path) -> None:
    records = [with_result(run, disturbed=True) for run in make_runs(tmp_path, PT, THREE)]
    claim = verdict(RATIO, records + make_runs(tmp_path, MX, THREE))
    assert claim["verdict"] == "not testable"
    assert "disturbed by other programs" in str(claim["reason"])


@pytest.mark.parametrize(
    ("system", "cpus", "is_oversubscribed"),
    [
        (PT, 2, False),
        (MX, 2, True),
        (MX, 3, False),  # its scheduler does not compute
        ("tensorflow/async/parameter_server", 3, True),  # its chief does
    ],
)
def test_processes_that_compete_on_one_machine_decide_no_times(
    tmp_path: Path, system: str, cpus: int, is_oversubscribed: bool
) -> None:
    records = [on_cpus(run, cpus, "shared_clock") for run in make_runs(tmp_path, system, THREE)]
    check = {"kind": "fraction", "quantity": "step_s", "system": system, "threshold": 1e-9}
    times = verdict(check, records)
    assert times["verdict"] == ("not testable" if is_oversubscribed else "reproduced")
    assert ("compete for the CPUs" in str(times["reason"])) is is_oversubscribed
    learning = verdict({**check, "quantity": "final_accuracy", "threshold": 0.1}, records)
    assert (learning["verdict"], learning["evidence"]) == ("reproduced", "D")  # 2 workers, not 3


def test_a_rule_names_the_number_of_servers(tmp_path: Path) -> None:
    records = make_runs(tmp_path, PT, FOUR)
    for servers, time_ms in ((1, 4.0), (2, 2.0)):
        topology = {"servers": servers}
        records += make_runs(tmp_path, PT_PS, (time_ms,) * 4, topology=topology)
    check = {**RATIO, "quantity": "step_s", "under": PT}
    values = {}
    for servers in (["each"], [1], [3, 2, 1], []):
        side = {"system": PT_PS, "servers": servers}
        values[tuple(servers)] = only_part(verdict({**check, "over": side}, records))
    assert values["each",]["value"] == pytest.approx(2.0, rel=0.1)
    assert values[3, 2, 1]["value"] == values["each",]["value"]
    assert values[1,]["value"] == pytest.approx(4.0, rel=0.1)
    assert values[()]["value"] == values[1,]["value"]
    assert f"{PT_PS} with 1 server, colocated" in str(values[()]["conditions"])
    missing = verdict({**check, "over": {"system": PT_PS, "servers": [5]}}, records)
    assert f"no runs of {PT_PS} with 5 servers" in str(missing["reason"])


@pytest.mark.parametrize(
    "topology", [{"link": {"latency_ms": 5}}, {"cpus_per_host": 0.5}, {"hosts": 1}, {"threads": 2}]
)
def test_other_conditions_are_not_paired(tmp_path: Path, topology: dict[str, object]) -> None:
    records = make_runs(tmp_path, PT, THREE, topology={**HOSTS, **topology})
    records += make_runs(tmp_path, MX, THREE, topology=HOSTS)
    assert verdict(RATIO, records)["verdict"] == "not testable"
    records += make_runs(tmp_path, MX, THREE, topology={**HOSTS, **topology})
    assert only_part(verdict(RATIO, records))["n"] == 3


def test_less_than_three_blocks_settle_nothing(tmp_path: Path) -> None:
    records = make_runs(tmp_path, PT, (9.0, 9.0)) + make_runs(tmp_path, MX, (1.0, 1.0))
    claim = verdict(RATIO, records)
    assert (claim["verdict"], claim["reason"]) == ("not settled", "2 blocks of at least 3")
    assert only_part(claim)["level"] == 0.95


def test_the_interval_of_a_fraction_is_positive(tmp_path: Path) -> None:
    check = {"kind": "fraction", "quantity": "step_s", "system": PT, "expect": "below"}
    claim = verdict({**check, "threshold": 0.01}, make_runs(tmp_path, PT, (0.1, 0.1, 9.0)))
    found = only_part(claim)
    assert 0 < found["low"] < 0.01 < found["high"]
    assert claim["verdict"] == "not settled"


@pytest.mark.parametrize(
    ("workers", "topology", "expected"),
    [
        (3, HOSTS, "A"),
        (3, {**HOSTS, "cpus_per_host": 0.4}, "B"),
        (3, {**HOSTS, "cpus_per_host": 1.0}, "A"),
        (2, HOSTS, "D"),  # three were published
        (3, {}, "D"),  # one machine in place of three
    ],
)
def test_the_level_of_the_evidence(
    tmp_path: Path, workers: int, topology: dict[str, object], expected: str
) -> None:
    check = {"kind": "fraction", "quantity": "step_s", "system": PT}
    records = make_runs(tmp_path, PT, THREE, workers=workers, topology=topology)
    claim = verdict(check, records)
    assert (claim["evidence"], only_part(claim)["evidence"]) == (expected, expected)
    assert claim["level"] == 0.95


def test_a_prediction_of_a_model_is_evidence_c_with_an_interval(tmp_path: Path) -> None:
    topology = {**HOSTS, "cpus_per_host": 0.4}
    records = make_runs(tmp_path, PT, FOUR, workers=1, topology=topology)
    runs = [observe(record, VERIFIED) for record in records]
    predictions = []
    for run in runs:
        rate = 45 * run.read("examples_per_s") * (1 + run.block / 50)
        setting = run.setting._replace(workers=50)
        predictions.append(predict(run, setting, run.arrangement, {"examples_per_s": rate}))
    check = {"kind": "trend", "quantity": "examples_per_s", "system": PT, "per_worker": True}
    check |= {"from": {"workers": 1}, "to": {"workers": 50}, "threshold": 0.8}
    rule = {**check, "experiments": ["distributed"], "workloads": [WORKLOAD]}
    rules = parse_rules({CLAIM: [rule]})
    (without,) = claim_verdicts(records, VERIFIED, rules)
    assert without["verdict"] == "not testable"
    (claim,) = claim_verdicts(records, VERIFIED, rules, predictions)
    found = only_part(claim)
    assert (claim["verdict"], claim["evidence"]) == ("reproduced", "C")
    assert 0.85 < found["low"] < found["value"] < found["high"] < 1.0
    assert set(found["records"]) == {record.folder.name for record in records}
    measured = {**rule, "to": {"workers": "max"}}
    (claim,) = claim_verdicts(records, VERIFIED, parse_rules({CLAIM: [measured]}), predictions)
    assert claim["verdict"] == "not testable", "the most workers are those of a run"


def test_measured_values_precede_predicted_ones(tmp_path: Path) -> None:
    records = make_runs(tmp_path, PT, THREE)
    runs = [observe(record, VERIFIED) for record in records]
    predictions = [predict(run, run.setting, run.arrangement, {"step_s": 9.0}) for run in runs]
    rules = parse_rules(
        {CLAIM: [{"kind": "fraction", "quantity": "step_s", "system": PT, "workloads": [WORKLOAD]}]}
    )
    (claim,) = claim_verdicts(records, VERIFIED, rules, predictions)
    assert only_part(claim)["value"] < 1.0


def test_parts_that_only_explain_do_not_decide(tmp_path: Path) -> None:
    records = make_runs(tmp_path, PT, FOUR) + make_runs(tmp_path, MX, FOUR)
    check = {"experiments": ["distributed"], "workloads": [WORKLOAD], "kind": "fraction"}
    check |= {"quantity": "step_s", "system": PT}
    rule = [{**check, "threshold": 1e-9}, {**check, "threshold": 1e9, "decides": False}]
    (claim,) = claim_verdicts(records, VERIFIED, parse_rules({CLAIM: rule}))
    assert claim["verdict"] == "reproduced"
    assert [found["verdict"] for found in claim["parts"]] == ["reproduced", "not reproduced"]
    rule.append({**check, "system": "jax/sync/allreduce", "threshold": 1e-9})
    (claim,) = claim_verdicts(records, VERIFIED, parse_rules({CLAIM: rule}))
    assert claim["verdict"] == "not settled"
    assert claim["reason"].startswith("1 of 2 parts reproduced; 1 could not be tested: no runs")


FASHION = "lenet-fashion-mnist"


def learning_runs(
    store: Path, workers: int, accuracies: list[tuple[float, ...]], rate: float = 0.1
) -> list[Record]:
    """Write a run per block with these accuracies, on a machine that is too small for it."""
    setting = {"workers": workers, "batch": 512, "workload": FASHION, "learning_rate": rate}
    runs = make_runs(store, ASYNC, (1.0,) * len(accuracies), **setting)  # type: ignore[arg-type]
    return [
        on_cpus(with_accuracy(run, *values), 2, "shared_clock")
        for run, values in zip(runs, accuracies, strict=True)
    ]


ASYNC = "pytorch/async/parameter_server"
LEARNS = {"kind": "learns", "system": ASYNC, "batch": 512, "learning_rate": 0.1}
LEARNS |= {"workloads": [FASHION], "experiments": []}
LEARNED, LOST, NEVER = (0.4, 0.5), (0.5, 0.1), (0.1, 0.1)


def judged(
    check: dict[str, object], records: list[Record], claim: str = "J01"
) -> dict[str, object]:
    """Compute the verdict on a claim about learning."""
    (verdict,) = claim_verdicts(records, {FASHION: "verified"}, parse_rules({claim: [check]}))
    return verdict


@pytest.mark.parametrize(
    ("learns", "accuracies", "expected"),
    [
        (True, [LEARNED] * 5, "reproduced"),
        (True, [LEARNED] * 4, "not settled"),
        (True, [NEVER] * 5, "reversed"),
        (True, [LOST] * 5, "not reproduced"),  # neither learned nor failed to
        (False, [NEVER] * 5, "reproduced"),
        (False, [LOST] * 5, "not reproduced"),
    ],
)
def test_five_runs_of_five_settle_whether_a_system_learns(
    tmp_path: Path, learns: bool, accuracies: list[tuple[float, ...]], expected: str
) -> None:
    claim = judged({**LEARNS, "learns": learns}, learning_runs(tmp_path, 5, accuracies))
    assert (claim["verdict"], claim["evidence"]) == (expected, "A")
    found = only_part(claim)
    if expected == "reproduced":
        assert found["low"] == pytest.approx(0.549, abs=1e-3)
    if LOST in accuracies:
        assert "5 more lost it again" in str(found["reason"])


def test_runs_of_one_seed_are_no_sample(tmp_path: Path) -> None:
    records = learning_runs(tmp_path, 5, [LEARNED] * 5)
    for record in records:
        write_json(
            record.folder / "spec.json",
            {"format": 2, **record.run.model_copy(update={"seed": 3}).model_dump(mode="json")},
        )
    same = [read_record(record.folder) for record in records]
    claim = judged({**LEARNS, "learns": True}, same)
    assert (claim["verdict"], claim["reason"]) == ("not settled", "5 runs of only 1 seeds")


@pytest.mark.parametrize(
    ("at_smaller_rate", "expected", "reason"),
    [
        (LEARNED, "reproduced", "2 to 4 at 0.1, at least 10 at 0.05"),
        (NEVER, "not settled", "2 to 4 at 0.1, 0 to 9 at 0.05"),
    ],
)
def test_the_largest_trainable_number_of_workers(
    tmp_path: Path, at_smaller_rate: tuple[float, ...], expected: str, reason: str
) -> None:
    records = learning_runs(tmp_path, 2, [LEARNED] * 5) + learning_runs(tmp_path, 5, [NEVER] * 5)
    check = {**LEARNS, "kind": "largest_trainable", "learning_rates": [0.1, 0.05]}
    check.pop("learning_rate")
    assert judged(check, records)["verdict"] == "not testable"
    records += learning_runs(tmp_path, 10, [at_smaller_rate] * 5, rate=0.05)
    claim = judged(check, records)
    assert (claim["verdict"], only_part(claim)["reason"]) == (expected, reason)


def test_a_plateau_is_a_fraction_of_the_published_training(tmp_path: Path) -> None:
    check = {**LEARNS, "kind": "fraction", "quantity": "half_accuracy_fraction", "threshold": 0.5}
    learned = learning_runs(tmp_path, 1, [(0.3, 0.6)] * 3)
    assert only_part(judged(check, learned))["value"] == pytest.approx(200 / 938, rel=1e-3)
    short = learning_runs(tmp_path, 1, [NEVER] * 3)
    assert judged(check, short)["verdict"] == "not testable", "100 of 938 steps show no plateau"
    steps = {"warmup": 1, "timed": 937}
    whole = [read_record(run.folder) for run in short]
    for run in whole:
        changed = run.run.model_copy(update={"steps": run.run.steps.model_copy(update=steps)})
        values = {"format": 2, **changed.model_dump(mode="json")}
        write_json(run.folder / "spec.json", values)
    claim = judged(check, [read_record(run.folder) for run in whole])
    assert (claim["verdict"], only_part(claim)["value"]) == ("reproduced", 1.0)


@pytest.mark.parametrize(("placement", "expected"), [("colocated", "A"), ("dedicated", "D")])
def test_three_hosts_were_published_with_their_servers(
    tmp_path: Path, placement: str, expected: str
) -> None:
    topology = {**HOSTS, "placement": placement}
    records = make_runs(tmp_path, PT_PS, THREE, workers=3, topology=topology)
    check = {"kind": "fraction", "quantity": "step_s", "system": PT_PS}
    assert verdict(check, records)["evidence"] == expected


def test_accuracies_have_no_margin(tmp_path: Path) -> None:
    records = [
        with_accuracy(run, accuracy)
        for batch, accuracy in ((512, 0.87), (5, 0.9))
        for run in make_runs(tmp_path, ASYNC, (1.0,) * 3, batch=batch, workers=1, workload=FASHION)
    ]
    check = {**LEARNS, "kind": "trend", "quantity": "final_accuracy"}
    check |= {"from": {"batch": 512}, "to": {"batch": 5}}
    for name in ("batch", "learning_rate"):
        check.pop(name)
    claim = judged(check, records)
    assert claim["verdict"] == "reproduced"
    assert "the same initial weights in all frameworks" in str(only_part(claim)["conditions"])
    assert judged({**check, "expect": "below"}, records)["verdict"] == "reversed"


def test_what_is_computed_for_another_training_is_an_analogue(tmp_path: Path) -> None:
    records = make_runs(tmp_path, "pytorch/local", THREE, workers=1)
    for record in records:
        batches = {"batch": [0, 1], "epoch": [0, 1], "batch_s": [0.02, 0.01]}
        write_table(record.folder / "input_batches.parquet", pa.table(batches))
    check = {"kind": "fraction", "quantity": "whole_set_load_ratio", "system": "pytorch/local"}
    assert verdict(check, records)["evidence"] == "D"
    assert verdict({**check, "quantity": "pipeline_s"}, records)["evidence"] == "A"
