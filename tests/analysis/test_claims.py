"""Verdicts on published claims: each kind of rule reproduced, reversed and not settled."""

from __future__ import annotations

import json
from math import inf, nan
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from claim_maker import (
    CLAIM,
    FOUR,
    MX,
    PT,
    RATIO,
    VERIFIED,
    WORKLOAD,
    make_runs,
    only_part,
    verdict,
    with_result,
)
from record_maker import make_record, make_records, make_study

from horizont.analysis.claims.findings import combine, decide, threshold_for
from horizont.analysis.claims.judge import claim_verdicts
from horizont.analysis.claims.publications import (
    published_seconds,
    published_times,
    read_claims,
    read_sources,
)
from horizont.analysis.claims.rules import parse_rules, read_rules
from horizont.analysis.faults import fault_outcomes
from horizont.config.faults import FaultSpec
from horizont.config.run import Run
from horizont.config.system import parse_system
from horizont.records.files import write_json, write_table
from horizont.records.record import Record
from horizont.records.results import FaultReport, ProcessOutcome
from horizont.statistics.intervals import Estimate

SIDES = ("system", "over", "under", "lowest", "highest")
WIDE = (0.4, 2.5, 0.4, 2.5)


def test_every_claim_has_a_rule_and_a_source() -> None:
    claims = read_claims()
    assert len(claims) == 46
    assert list(read_rules()) == [claim.id for claim in claims]
    assert {claim.source.rsplit(" ", 1)[0][:4] for claim in claims} == {"Jaeg", "NTUA", "KTH"}
    for claim in claims:
        assert any(claim.source.startswith(name) for name in read_sources())


def test_rules_name_systems_and_workloads_that_exist() -> None:
    study = make_study()
    profiles = (Path(__file__).parents[2] / "profiles").glob("*.yaml")
    experiments = {
        name for path in profiles for name in yaml.safe_load(path.read_text())["experiments"]
    }
    for checks in read_rules().values():
        for check in checks:
            assert set(check.workloads) <= {*study.workloads, ""}
            assert set(check.experiments) <= experiments
            named = [getattr(check, name, None) for name in SIDES]
            for side in [*filter(None, named), *getattr(check, "others", ())]:
                assert parse_system(side.system.partition("+")[0])


def test_a_rule_of_an_unknown_kind_is_rejected() -> None:
    with pytest.raises(ValueError, match="kind"):
        parse_rules({"N19": [{"kind": "hunch"}]})


@pytest.mark.parametrize(
    ("low", "high", "expect", "threshold", "expected"),
    [
        (2.1, 3.0, "above", 2.0, "reproduced"),
        (1.2, 1.9, "above", 2.0, "not reproduced"),
        (0.5, 0.8, "above", 2.0, "reversed"),
        (1.5, 2.5, "above", 2.0, "not settled"),
        (0.95, 1.05, "above", 1.0, "not reproduced"),  # equal
        (0.7, 1.05, "above", 1.0, "not settled"),
        (1.01, 1.05, "above", 1.0, "not reproduced"),  # equal within 10 %
        (1.01, 1.15, "above", 1.0, "reproduced"),
        (1.01, 1.05, "above", 1.005, "reproduced"),  # so much was claimed
        (0.5, 0.8, "below", 1.0, "reproduced"),
        (1.2, 1.4, "below", 1.0, "reversed"),
        (0.95, 1.05, "equal", 1.0, "reproduced"),
        (1.2, 1.4, "equal", 1.0, "not reproduced"),
        (0.95, 1.2, "equal", 1.0, "not settled"),
        (nan, nan, "above", 1.0, "not settled"),
    ],
)
def test_the_interval_decides(
    low: float, high: float, expect: str, threshold: float, expected: str
) -> None:
    assert decide(Estimate(1.0, low, high, 0.95, 6), expect, threshold) == expected


def test_a_published_factor_is_reproduced_by_half_of_it() -> None:
    assert threshold_for(4.0, None) == pytest.approx(2.0)
    assert threshold_for(None, None) == 1.0
    assert threshold_for(4.0, 0.5) == 0.5


def test_a_refuted_part_refutes_and_an_untested_part_does_not_settle() -> None:
    assert combine(["reproduced", "not reproduced"]) == "not reproduced"
    assert combine(["reversed", "reversed", "not testable"]) == "reversed"
    assert combine(["reversed", "reproduced"]) == "not reproduced"
    assert combine(["reproduced", "not testable"]) == "not settled"
    assert combine(["not testable"]) == "not testable"


@pytest.mark.parametrize(
    ("times", "expected"),
    [((3.0,) * 4, "reproduced"), ((0.3,) * 4, "reversed"), (WIDE, "not settled")],
)
def test_ratio(tmp_path: Path, times: tuple[float, ...], expected: str) -> None:
    records = make_runs(tmp_path, PT, times) + make_runs(tmp_path, MX, FOUR)
    claim = verdict({**RATIO, "published": 2.0}, records)
    assert claim["verdict"] == expected
    (part,) = claim["parts"]
    assert part["n"] == 4
    assert part["low"] <= part["value"] <= part["high"]
    assert set(part["records"]) == {record.folder.name for record in records}


def test_the_published_value_comes_from_the_table(tmp_path: Path) -> None:
    records = make_runs(tmp_path, PT, FOUR) + make_runs(tmp_path, MX, FOUR)
    published = {**RATIO, "quantity": "backward_update_s", "over": MX, "under": PT}
    (part,) = verdict(published, records)["parts"]
    assert part["published"] == pytest.approx(50.65 / 21.29, rel=1e-3)
    assert part["threshold"] == pytest.approx((50.65 / 21.29) ** 0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("times", "expected"),
    [((3.0,) * 4, "reproduced"), ((0.3,) * 4, "reversed"), (WIDE, "not settled")],
)
def test_ordering(tmp_path: Path, times: tuple[float, ...], expected: str) -> None:
    others = ["tensorflow/sync/allreduce", MX]
    records = [r for system in others for r in make_runs(tmp_path, system, FOUR)]
    records += make_runs(tmp_path, PT, times)
    check = {"kind": "ordering", "quantity": "total_s", "highest": PT, "others": others}
    assert verdict(check, records)["verdict"] == expected
    lowest = {"kind": "ordering", "quantity": "total_s", "lowest": PT, "others": others}
    opposite = {"reproduced": "reversed", "reversed": "reproduced"}
    assert verdict(lowest, records)["verdict"] == opposite.get(expected, expected)


@pytest.mark.parametrize(
    ("times", "expected"),
    [(FOUR, "reproduced"), ((4.0,) * 4, "not reproduced"), (WIDE, "not settled")],
)
def test_trend_over_workers(tmp_path: Path, times: tuple[float, ...], expected: str) -> None:
    records = make_runs(tmp_path, MX, FOUR, workers=1) + make_runs(tmp_path, MX, times, workers=4)
    check = {"kind": "trend", "quantity": "examples_per_s", "system": MX, "per_worker": True}
    check |= {"from": {"workers": 1}, "to": {"workers": 4}, "threshold": 0.8}
    assert verdict(check, records)["verdict"] == expected
    out_of_range = verdict({**check, "to": {"workers": 50}}, records)
    assert out_of_range["verdict"] == "not testable"
    assert "reach 4 workers, not 50" in str(out_of_range["reason"])
    ratio = {"kind": "ratio", "quantity": "step_s", "over": MX, "under": MX, "workers": 50}
    assert "reach 4 workers, not 50" in str(verdict(ratio, records)["reason"])


def test_a_trend_from_the_smallest_to_the_largest_batch(tmp_path: Path) -> None:
    records = [r for batch in (8, 16, 32) for r in make_runs(tmp_path, MX, FOUR, batch=batch)]
    check = {"kind": "trend", "quantity": "examples_per_s", "system": MX}
    (part,) = verdict({**check, "from": {"batch": "min"}, "to": {"batch": "max"}}, records)["parts"]
    assert "with 8 examples each; then" in part["conditions"]
    assert "with 32 examples each" in part["conditions"]


@pytest.mark.parametrize(
    ("times", "expected"),
    [((3.0,) * 4, "reproduced"), ((0.3,) * 4, "reversed"), (WIDE, "not settled")],
)
def test_growth(tmp_path: Path, times: tuple[float, ...], expected: str) -> None:
    records = make_runs(tmp_path, PT, FOUR, workers=1) + make_runs(tmp_path, PT, FOUR, workers=4)
    records += make_runs(tmp_path, MX, FOUR, workers=1) + make_runs(tmp_path, MX, times, workers=4)
    check = {"kind": "growth", "quantity": "examples_per_s", "over": PT, "under": MX}
    check |= {"from": {"workers": 1}, "to": {"workers": "max"}}
    assert verdict(check, records)["verdict"] == expected


def test_growth_of_the_speedup(tmp_path: Path) -> None:
    # A step of MX takes three times as long with the small batch, whatever the number of workers.
    times = {(MX, 8, 1): 3.0, (MX, 8, 4): 3.0}
    records = [
        record
        for system in (PT, MX)
        for batch in (8, 32)
        for workers in (1, 4)
        for time_ms in [times.get((system, batch, workers), 1.0)]
        for record in make_runs(tmp_path, system, (time_ms,) * 4, batch=batch, workers=workers)
    ]
    check = {"kind": "growth", "quantity": "examples_per_s", "over": PT, "under": MX}
    check |= {"from": {"batch": 32, "workers": "max"}, "to": {"batch": 8, "workers": "max"}}
    assert only_part(verdict(check, records))["value"] == pytest.approx(3.0, rel=0.05)
    part = only_part(verdict({**check, "speedup": True}, records))
    assert part["value"] == pytest.approx(1.0, rel=0.05)
    assert part["subject"].endswith(", relative to one worker")


def test_growth_to_another_network_at_the_largest_batch_of_each(tmp_path: Path) -> None:
    points = [(WORKLOAD, 8, 1.0), (WORKLOAD, 32, 1.0), ("other", 16, 3.0)]
    records = [
        record
        for workload, batch, time_ms in points
        for system, times in ((PT, FOUR), (MX, (time_ms,) * 4))
        for record in make_runs(tmp_path, system, times, workload=workload, batch=batch)
    ]
    check = {"kind": "growth", "quantity": "examples_per_s", "over": PT, "under": MX}
    check |= {"experiments": ["distributed"], "expect": "above"}
    check |= {"from": {"workload": WORKLOAD, "batch": "max"}}
    check |= {"to": {"workload": "other", "batch": "max"}}
    rules = parse_rules({CLAIM: [check]})
    (claim,) = claim_verdicts(records, {**VERIFIED, "other": "verified"}, rules)
    (part,) = claim["parts"]
    assert claim["verdict"] == "reproduced"
    assert "32 examples" in part["conditions"]
    assert "16 examples" in part["conditions"]


def test_fraction(tmp_path: Path) -> None:
    records = make_runs(tmp_path, PT, FOUR)
    check = {"kind": "fraction", "quantity": "network_fraction", "system": PT}
    claim = verdict({**check, "threshold": 0.1}, records)
    (part,) = claim["parts"]
    assert part["value"] == pytest.approx(2 / 7 / 1.06, rel=0.05)  # instrumented steps are slower
    assert claim["verdict"] == "reproduced"
    assert verdict({**check, "threshold": 0.9}, records)["verdict"] == "not reproduced"
    assert verdict({**check, "threshold": part["value"]}, records)["verdict"] == "not settled"


def _killed(store: Path, block: int, end_reason: str, steps: int = 0) -> Record:
    """Write the record of a run in which worker 1 was killed."""
    template = next(iter(make_study().runs("distributed", WORKLOAD)))
    fault = FaultSpec(kind="kill", target="worker", rank=1)
    changed = {"fault": fault, "block": block, "system": parse_system(PT)}
    changed["topology"] = {"workers": 2}
    run = Run.model_validate({**template.model_dump(), **changed})
    record = make_record(store, block, run, failed=(PT,))
    survivor = {"process": "worker-0", "role": "worker", "rank": 0, "outcome": "failed"}
    outcomes = (ProcessOutcome(**survivor, steps_before=0, steps_after=steps),)  # type: ignore[arg-type]
    report = FaultReport(
        target="worker-1", at_step=10, end_reason=end_reason, ended_after_s=1, processes=outcomes
    )  # type: ignore[arg-type]
    write_json(record.folder / "fault_report.json", report.model_dump(mode="json"))
    return record


@pytest.mark.parametrize(
    ("end_reasons", "expected"),
    [
        (("all_exited", "stalled", "stalled"), "reproduced"),
        (("completed",) * 3, "reversed"),
        (("completed", "all_exited", "stalled"), "not settled"),
        (("stalled", "stalled"), "not settled"),
        ((), "not testable"),
    ],
)
def test_survives_fault(tmp_path: Path, end_reasons: tuple[str, ...], expected: str) -> None:
    records = [_killed(tmp_path, block, reason) for block, reason in enumerate(end_reasons)]
    check = {"kind": "survives_fault", "completes": False, "systems": [PT]}
    assert verdict(check, records)["verdict"] == expected


def test_a_training_that_reached_its_end_survived_even_if_its_process_hangs(
    tmp_path: Path,
) -> None:
    planned = next(iter(make_study().runs("distributed", WORKLOAD))).steps.total
    records = [_killed(tmp_path, block, "stalled", planned) for block in range(3)]
    check = {"kind": "survives_fault", "completes": True, "systems": [PT]}
    assert verdict(check, records)["verdict"] == "reproduced"
    assert set(fault_outcomes(records)["outcome"]) == {"completes, then hangs"}


MPI_HOSTS = {"launcher": "command", "options": {"command": "mpirun", "hosts": ["a", "b"]}}


@pytest.mark.parametrize(
    ("sampled", "expected"),
    [
        ((2, 2, 2), "reproduced"),
        ((2, 2, 1), "not reproduced"),  # a host is missing in the samples
        ((2, 2, 0), "not reproduced"),  # the run has failed
        ((2, 2), "not settled"),
        ((), "not testable"),
    ],
)
def test_completes(tmp_path: Path, sampled: tuple[int, ...], expected: str) -> None:
    records = make_runs(tmp_path, PT, (1.0,) * len(sampled), topology=MPI_HOSTS)
    for number, record in enumerate(records):
        if not sampled[number]:
            records[number] = with_result(record, status="failed", reason="a host is lost")
        hosts = [f"host-{host}" for host in range(sampled[number])]
        write_table(record.folder / "samples.parquet", pa.table({"host": hosts}))
    check = {"kind": "completes", "command": "mpirun", "systems": [PT]}
    assert verdict(check, records)["verdict"] == expected
    assert verdict({**check, "command": "ssh"}, records)["verdict"] == "not testable"


@pytest.mark.parametrize(
    ("learns", "blocks", "expected"),
    [(True, 6, "reproduced"), (False, 6, "reversed"), (True, 3, "not settled")],
)
def test_learns(tmp_path: Path, learns: bool, blocks: int, expected: str) -> None:
    records = make_runs(tmp_path, MX, (1.0,) * blocks)
    check = {"kind": "learns", "system": MX, "batch": 42, "learns": learns}
    check |= {"learning_rate": records[0].run.workload.optimizer.learning_rate}
    assert verdict(check, records)["verdict"] == expected
    other_rate = verdict({**check, "learning_rate": 9.0}, records)
    assert other_rate["verdict"] == "not testable"


def test_a_claim_out_of_scope_has_a_reason() -> None:
    claim = verdict({"kind": "not_testable", "reason": "needs Hadoop"}, [])
    assert (claim["verdict"], claim["reason"]) == ("not testable", "needs Hadoop")


def test_runs_without_a_certificate_test_nothing(tmp_path: Path) -> None:
    records = make_runs(tmp_path, PT, (3.0,) * 3) + make_runs(tmp_path, MX, FOUR[:3])
    rules = parse_rules(
        {CLAIM: [{**RATIO, "workloads": [WORKLOAD], "experiments": ["distributed"]}]}
    )
    (claim,) = claim_verdicts(records, {WORKLOAD: "not comparable: not verified"}, rules)
    assert claim["verdict"] == "not testable"
    assert "not verified" in claim["reason"]


def test_failed_runs_are_a_reason(tmp_path: Path) -> None:
    records = make_records(tmp_path, failed=(PT, MX), blocks=1)
    assert verdict(RATIO, records)["reason"] == (
        f"no successful run of {PT} on {WORKLOAD} in the experiment distributed"
    )


def test_all_claims_have_a_verdict_that_is_valid_json(tmp_path: Path) -> None:
    records = make_records(tmp_path / "d") + make_records(tmp_path / "l", "local")
    claims = claim_verdicts(records, VERIFIED)
    assert len(claims) == 46
    for claim in json.loads(json.dumps(claims, allow_nan=False)):
        for part in claim["parts"]:
            assert (part["value"] is None) or part["records"]
            assert part["value"] not in (inf, 0)


def test_the_published_table_is_complete() -> None:
    table = published_times()
    assert len(table) == 30
    assert set(table["system"].str.partition("/")[0]) == {"tensorflow", "pytorch", "mxnet"}
    assert published_seconds("resnet50-cifar10", MX, "network_s") == 1022.68
    single_process = published_seconds("lenet5-cifar10", "pytorch/local", "total_s")
    assert single_process == pytest.approx(53.02 + 24.21 + 21.29)
