"""The comparator's arithmetic, on tensors made by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from horizont.equivalence.certificate import (
    EquivalenceCertificate,
    make_certificate,
    read_certificate,
    write_certificate,
)
from horizont.equivalence.compare import (
    ERROR_CAP,
    FLOAT64_BOUND,
    TraceSet,
    compare,
    float32_bound,
    framework_pairs,
    relative_distance,
)


def trace(**changes: np.ndarray) -> dict[str, np.ndarray]:
    arrays = {
        "initial/0/conv1.weight": np.arange(1.0, 5.0),
        "logits/0/logits": np.ones((2, 3)),
        "gradient/0/conv1.weight": np.ones(4),
        "update/5/conv1.weight": np.full(4, 0.1),
    }
    return {**arrays, **{name.replace("__", "/"): value for name, value in changes.items()}}


def proof(one: dict[str, np.ndarray], other: dict[str, np.ndarray], dtype: str = "float64"):  # type: ignore[no-untyped-def]
    rows = compare(TraceSet(dtype, {"a": one, "b": other}, [{"a": one, "b": other}]))
    about = {"workload": "w", "network": "n", "dataset": "d", "source": "synthetic"}
    return make_certificate(
        rows, **about, provenance={"network": "1"}, frameworks=("a", "b"), missing={}
    )


def test_distance() -> None:
    one = np.array([3.0, 4.0])
    assert relative_distance(one, one, one) == 0
    assert relative_distance(one, one + np.array([0, 0.5]), one) == pytest.approx(0.1)
    assert relative_distance(one, one[:1], one) == np.inf
    assert relative_distance(one, one + np.nan, one) == np.inf
    assert relative_distance(one, one + 1, one * 0) == np.inf


def test_equal_traces_are_proven() -> None:
    found = proof(trace(), trace())
    assert found.ok
    assert "agree" in found.verdict
    assert found.status_for("a", {"network": "1"}) == "verified"


def test_the_first_departure_is_the_first_in_the_order_of_training() -> None:
    wrong = trace(
        update__5__conv1=np.ones(4),
        **{"gradient__0__conv1.weight": np.ones(4) * 1.001, "logits__0__logits": np.ones((2, 3))},
    )
    found = proof(trace(), wrong)
    assert not found.ok
    assert found.first_divergence is not None
    assert found.first_divergence["quantity"] == "gradient"
    assert "conv1.weight" in found.verdict


def built_proof(built: dict[str, np.ndarray]) -> EquivalenceCertificate:
    """Compare two frameworks that agree, and a build of one of them."""
    told = {"a": trace(), "b": trace(), "b+fast": built}
    rows = compare(TraceSet("float64", told, [{"a": trace(), "b": trace()}]))
    about = {"workload": "w", "network": "n", "dataset": "d", "source": "synthetic"}
    trainers = {"frameworks": ("a", "b"), "builds": ("b+fast",)}
    return make_certificate(rows, **about, provenance={"network": "1"}, missing={}, **trainers)


def test_a_build_is_compared_with_its_own_framework() -> None:
    assert framework_pairs(["b+fast", "b", "a"]) == [("a", "b"), ("b", "b+fast")]
    found = built_proof(trace())
    assert found.status_for("b+fast", {"network": "1"}) == "verified"
    assert "b-b+fast" in found.verdict


def test_a_departing_build_leaves_the_frameworks_proven() -> None:
    found = built_proof(trace(**{"update__5__conv1.weight": np.full(4, 0.11)}))
    assert found.status_for("b", {"network": "1"}) == "verified"
    assert "departure of this build" in found.status_for("b+fast", {"network": "1"})
    assert "b-b+fast depart first at update conv1.weight" in found.verdict


def test_a_build_without_a_proof_of_its_own_is_not_comparable() -> None:
    found = built_proof(trace())
    assert found.status_for("a+fast", {"network": "1"}) == "not comparable: no proof for this build"
    mute = built_proof({"initial/0/conv1.weight": np.arange(1.0, 5.0)})
    assert mute.status_for("b+fast", {"network": "1"}).startswith("not comparable")


def test_a_missing_tensor_is_a_departure() -> None:
    lacking = trace()
    del lacking["logits/0/logits"]
    assert not proof(trace(), lacking).ok
    assert not proof(lacking, trace()).ok


def test_initial_weights_must_be_equal_to_the_last_bit() -> None:
    moved = trace(**{"initial__0__conv1.weight": np.nextafter(np.arange(1.0, 5.0), 9)})
    assert not proof(trace(), moved).ok


def test_float64_is_strict_and_float32_follows_its_noise() -> None:
    near = trace(**{"gradient__0__conv1.weight": np.ones(4) * (1 + 1e-9)})
    assert FLOAT64_BOUND < 1e-9
    assert not proof(trace(), near).ok
    assert all(row["ok"] for row in proof(trace(), near, "float32").rows)
    assert float32_bound([1e-3, 2e-3], []) == pytest.approx(2e-2)
    assert 0 < float32_bound([], []) < 1e-5


def test_a_framework_may_be_as_inexact_as_it_is_by_itself_within_reason() -> None:
    assert float32_bound([1e-7], [8e-6]) == pytest.approx(8e-5)
    assert float32_bound([1e-7], [1e-2]) == pytest.approx(10 * ERROR_CAP)  # a mistake, no rounding
    exact = trace()
    inexact = trace(**{"gradient__0__conv1.weight": np.ones(4) * (1 + 9e-6)})
    plain = {"a": exact, "b": inexact}
    assert not proof_ok(TraceSet("float32", plain, [plain]))
    assert proof_ok(TraceSet("float32", plain, [plain], {"a": exact, "b": exact}))


def proof_ok(traces: TraceSet) -> bool:
    return all(row.ok for row in compare(traces))


class Read(dict[str, np.ndarray]):
    """A trace that notes what is read of it."""

    def __init__(self) -> None:
        super().__init__(trace())
        self.names: list[str] = []

    def __getitem__(self, name: str) -> np.ndarray:
        self.names.append(name)
        return super().__getitem__(name)


def test_each_tensor_is_read_once_and_not_before_its_turn() -> None:
    traces = [Read() for _ in range(6)]
    plain, rerun = (dict(zip("abc", part, strict=True)) for part in (traces[:3], traces[3:]))
    rows = compare(TraceSet("float64", plain, [rerun]))
    next(rows)
    assert [read.names for read in traces] == [["initial/0/conv1.weight"]] * 6
    assert len(list(rows)) == 4 * 3 - 1
    assert [read.names for read in traces] == [list(trace())] * 6


def test_a_chaotic_training_is_no_evidence() -> None:
    adrift = trace(**{"update__5__conv1.weight": np.array([0.1, 0.1, 0.1, 0.2])})
    one = {"a": trace(), "b": trace()}
    rows = list(compare(TraceSet("float64", one, [{"a": adrift, "b": adrift}])))
    about = {"workload": "w", "network": "n", "dataset": "d", "source": "synthetic"}
    found = make_certificate(rows, **about, provenance={}, frameworks=("a", "b"), missing={})
    assert all(row.ok for row in rows)
    assert not found.ok
    assert found.verdict.startswith("Not settled: rounding")


def test_a_stale_proof_does_not_stand() -> None:
    found = proof(trace(), trace())
    assert "another network" in found.status_for("a", {"network": "2"})
    assert "no proof for this framework" in found.status_for("c", {"network": "1"})
    broken = proof(trace(), trace(**{"logits__0__logits": np.zeros((2, 3))}))
    assert "departure" in broken.status_for("a", {"network": "1"})


def test_nothing_to_compare_is_no_proof() -> None:
    about = {"workload": "w", "network": "n", "dataset": "d", "source": "real"}
    alone = make_certificate(
        [], **about, provenance={}, frameworks=("a",), missing={"b": "not installed"}
    )
    assert not alone.ok
    assert "fewer than two" in alone.verdict


def test_a_proof_survives_the_disk(tmp_path: Path) -> None:
    found = proof(trace(), trace(**{"logits__0__logits": np.zeros((2, 9))}))
    write_certificate(tmp_path / "proof.json", found)
    assert read_certificate(tmp_path / "proof.json") == found


def test_a_kink_in_any_framework_is_noise_for_all_in_float32_only() -> None:
    told = {name: trace() for name in ("a", "b", "c")}
    told["b"] = trace(**{"gradient__0__conv1.weight": np.full(4, 1.01)})
    flipped = trace(**{"gradient__0__conv1.weight": np.full(4, 1.01)})
    rerun = {"a": trace(), "b": told["b"], "c": flipped}

    def of_ab(dtype: str) -> bool:
        rows = compare(TraceSet(dtype, told, [rerun]))
        (row,) = [row for row in rows if (row.pair, row.quantity) == ("a-b", "gradient")]
        return row.ok

    assert of_ab("float32")
    assert not of_ab("float64")
