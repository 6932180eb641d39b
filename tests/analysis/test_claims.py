"""The verdicts on published claims: each kind of rule reproduced, reversed and left open."""

from __future__ import annotations

import json
from math import inf, nan
from pathlib import Path

import pytest
from claim_maker import WORKLOAD, make_runs
from record_maker import _make, make_records, make_study

from horizont.analysis.claims.findings import combine, decide, threshold_for
from horizont.analysis.claims.judge import claim_verdicts
from horizont.analysis.claims.rules import (
    parse_rules,
    published_seconds,
    published_times,
    read_claims,
    read_rules,
    read_sources,
)
from horizont.config.faults import FaultSpec
from horizont.config.run import Run
from horizont.config.system import FRAMEWORKS, parse_system
from horizont.records.files import write_json
from horizont.records.record import Record
from horizont.records.results import FaultReport, ProcessOutcome
from horizont.statistics.intervals import Estimate

PT, MX = "pytorch/sync/allreduce", "mxnet/sync/parameter_server"
FOUR = (1.0,) * 4
WIDE = (0.4, 2.5, 0.4, 2.5)
PROVEN = {WORKLOAD: "verified"}
CLAIM = "N25"


def verdict(check: dict[str, object], records: list[Record]) -> dict[str, object]:
    """Judge one claim by one rule."""
    full = {"experiments": ["distributed"], "workloads": [WORKLOAD], **check}
    (found,) = claim_verdicts(records, PROVEN, parse_rules({CLAIM: [full]}))
    return found


def test_every_claim_has_a_rule_and_a_source() -> None:
    claims = read_claims()
    assert len(claims) == 46
    assert list(read_rules()) == [claim.id for claim in claims]
    assert {claim.source.rsplit(" ", 1)[0][:4] for claim in claims} == {"Jaeg", "NTUA", "KTH"}
    for claim in claims:
        assert any(claim.source.startswith(name) for name in read_sources())


def test_rules_name_systems_and_workloads_that_exist() -> None:
    study = make_study()
    for checks in read_rules().values():
        for check in checks:
            assert set(check.workloads) <= {*study.workloads, ""}
            assert set(check.experiments) <= set(study.experiments)
            for name in ("system", "over", "under", "lowest", "highest"):
                system = getattr(check, name, "")
                assert not system or parse_system(system.partition("+")[0])


def test_a_rule_of_no_known_kind_is_refused() -> None:
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
        (0.5, 0.8, "below", 1.0, "reproduced"),
        (1.2, 1.4, "below", 1.0, "reversed"),
        (0.95, 1.05, "equal", 1.0, "reproduced"),
        (1.2, 1.4, "equal", 1.0, "not reproduced"),
        (0.95, 1.2, "equal", 1.0, "not settled"),
        (nan, nan, "above", 1.0, "not settled"),
    ],
)
def test_an_interval_decides(
    low: float, high: float, expect: str, threshold: float, expected: str
) -> None:
    assert decide(Estimate(1.0, low, high, 0.95, 6), expect, threshold) == expected


def test_a_published_factor_counts_if_half_of_it_is_there() -> None:
    assert threshold_for(4.0, None) == pytest.approx(2.0)
    assert threshold_for(None, None) == 1.0
    assert threshold_for(4.0, 0.5) == 0.5


def test_one_refuted_part_refutes_and_one_untested_part_leaves_open() -> None:
    assert combine(["reproduced", "not reproduced"]) == "not reproduced"
    assert combine(["reversed", "reversed", "not testable"]) == "reversed"
    assert combine(["reversed", "reproduced"]) == "not reproduced"
    assert combine(["reproduced", "not testable"]) == "not settled"
    assert combine(["not testable"]) == "not testable"


RATIO = {"kind": "ratio", "quantity": "backward_s", "over": PT, "under": MX}


@pytest.mark.parametrize(
    ("times", "expected"),
    [((3.0,) * 4, "reproduced"), ((0.3,) * 4, "reversed"), (WIDE, "not settled")],
)
def test_ratio(tmp_path: Path, times: tuple[float, ...], expected: str) -> None:
    records = make_runs(tmp_path, PT, times) + make_runs(tmp_path, MX, FOUR)
    found = verdict({**RATIO, "published": 2.0}, records)
    assert found["verdict"] == expected
    (part,) = found["parts"]  # type: ignore[misc]
    assert part["n"] == 4
    assert part["low"] <= part["value"] <= part["high"]
    assert set(part["records"]) == {record.folder.name for record in records}


def test_a_published_table_gives_the_published_figure(tmp_path: Path) -> None:
    records = make_runs(tmp_path, PT, FOUR) + make_runs(tmp_path, MX, FOUR)
    (part,) = verdict({**RATIO, "over": MX, "under": PT}, records)["parts"]  # type: ignore[misc]
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
    first = {"kind": "ordering", "quantity": "total_s", "lowest": PT, "others": others}
    opposite = {"reproduced": "reversed", "reversed": "reproduced"}
    assert verdict(first, records)["verdict"] == opposite.get(expected, expected)


@pytest.mark.parametrize(
    ("times", "expected"),
    [(FOUR, "reproduced"), ((4.0,) * 4, "not reproduced"), (WIDE, "not settled")],
)
def test_trend_over_workers(tmp_path: Path, times: tuple[float, ...], expected: str) -> None:
    records = make_runs(tmp_path, MX, FOUR, workers=1) + make_runs(tmp_path, MX, times, workers=4)
    check = {"kind": "trend", "quantity": "examples_per_s", "system": MX, "per_worker": True}
    check |= {"from": {"workers": 1}, "to": {"workers": 4}, "threshold": 0.8}
    assert verdict(check, records)["verdict"] == expected
    beyond = verdict({**check, "to": {"workers": 50}}, records)
    assert beyond["verdict"] == "not testable"
    assert "reach 4 workers, not 50" in str(beyond["reason"])


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


def test_share(tmp_path: Path) -> None:
    records = make_runs(tmp_path, PT, FOUR)
    check = {"kind": "fraction", "quantity": "network_fraction", "system": PT}
    found = verdict({**check, "threshold": 0.1}, records)
    (part,) = found["parts"]  # type: ignore[misc]
    assert part["value"] == pytest.approx(2 / 7 / 1.06, rel=0.05)  # instrumented steps are slower
    assert found["verdict"] == "reproduced"
    assert verdict({**check, "threshold": 0.9}, records)["verdict"] == "not reproduced"
    assert verdict({**check, "threshold": part["value"]}, records)["verdict"] == "not settled"


def _struck(store: Path, block: int, over: str) -> Record:
    plain = next(iter(make_study().runs("distributed", WORKLOAD)))
    incident = FaultSpec(kind="kill", target="worker", rank=1)
    changed = {"fault": incident, "block": block, "system": parse_system(PT)}
    changed["topology"] = {"workers": 2}
    run = Run.model_validate({**plain.model_dump(), **changed})
    record = _make(store, block, run, (PT,), ())
    fates = (ProcessOutcome(target="worker-0", role="worker", rank=0, outcome="failed"),)
    found = FaultReport(
        target="worker-1", at_step=10, end_reason=over, ended_after_s=1, processes=fates
    )  # type: ignore[arg-type]
    write_json(record.folder / "fault_report.json", found.model_dump(mode="json"))
    return record


@pytest.mark.parametrize(
    ("overs", "expected"),
    [
        (("all_exited", "stalled"), "reproduced"),
        (("completed", "completed"), "reversed"),
        (("completed", "all_exited"), "not settled"),
        ((), "not testable"),
    ],
)
def test_survival(tmp_path: Path, overs: tuple[str, ...], expected: str) -> None:
    records = [_struck(tmp_path, block, over) for block, over in enumerate(overs)]
    check = {"kind": "survives_fault", "completes": False, "systems": [PT]}
    assert verdict(check, records)["verdict"] == expected


@pytest.mark.parametrize(
    ("learns", "blocks", "expected"),
    [(True, 6, "reproduced"), (False, 6, "reversed"), (True, 3, "not settled")],
)
def test_learning(tmp_path: Path, learns: bool, blocks: int, expected: str) -> None:
    records = make_runs(tmp_path, MX, (1.0,) * blocks)
    check = {"kind": "learns", "system": MX, "batch": 42, "learns": learns}
    check |= {"learning_rate": records[0].run.workload.optimizer.learning_rate}
    assert verdict(check, records)["verdict"] == expected
    elsewhere = verdict({**check, "learning_rate": 9.0}, records)
    assert elsewhere["verdict"] == "not testable"


def test_what_is_outside_says_why() -> None:
    found = verdict({"kind": "not_testable", "reason": "nobody can"}, [])
    assert (found["verdict"], found["reason"]) == ("not testable", "nobody can")


def test_runs_without_a_proof_settle_nothing(tmp_path: Path) -> None:
    records = make_runs(tmp_path, PT, (3.0,) * 3) + make_runs(tmp_path, MX, FOUR[:3])
    rules = parse_rules(
        {CLAIM: [{**RATIO, "workloads": [WORKLOAD], "experiments": ["distributed"]}]}
    )
    (found,) = claim_verdicts(records, {WORKLOAD: "not comparable: no proof was made"}, rules)
    assert found["verdict"] == "not testable"
    assert "no proof was made" in found["reason"]


def test_failed_runs_are_a_reason(tmp_path: Path) -> None:
    records = make_records(tmp_path, failed=(PT, MX), blocks=1)
    found = verdict(RATIO, records)
    assert found["reason"] == (
        f"no run went well of {PT} on {WORKLOAD} in the experiment distributed"
    )


def test_all_claims_are_judged_and_written_as_plain_json(tmp_path: Path) -> None:
    records = make_records(tmp_path / "d") + make_records(tmp_path / "l", "local")
    found = claim_verdicts(records, PROVEN)
    assert len(found) == 46
    again = json.loads(json.dumps(found, allow_nan=False))
    for claim in again:
        for part in claim["parts"]:
            assert (part["value"] is None) or part["records"]
            assert part["value"] not in (inf, 0)


def test_the_published_table_holds_what_was_published() -> None:
    table = published_times()
    assert len(table) == 30
    assert set(table["system"].str.partition("/")[0]) == set(FRAMEWORKS)
    assert published_seconds("resnet50-cifar10", MX, "network_s") == 1022.68
    alone = published_seconds("lenet5-cifar10", "pytorch/local", "total_s")
    assert alone == pytest.approx(53.02 + 24.21 + 21.29)
