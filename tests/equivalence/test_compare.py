"""The arithmetic of the comparator, on small tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from horizont.equivalence.bounds import (
    CONTINUOUS_FACTOR,
    CONTINUOUS_FLOOR_ULPS,
    ERROR_CAP,
    FLOAT64_BOUND,
    MAX_BOUND,
    continuous_bound,
    float32_bound,
    has_reduced_precision,
    noise_limit,
    relative_distance,
)
from horizont.equivalence.certificate import (
    FORMAT,
    EquivalenceCertificate,
    make_certificate,
    read_certificate,
    write_certificate,
)
from horizont.equivalence.compare import TraceSet, compare, framework_pairs
from horizont.equivalence.evidence import mute_counts
from horizont.errors import UserError


def trace(**changes: np.ndarray) -> dict[str, np.ndarray]:
    arrays = {
        "initial/0/conv1.weight": np.arange(1.0, 5.0),
        "logits/0/logits": np.ones((2, 3)),
        "gradient/0/conv1.weight": np.ones(4),
        "update/5/conv1.weight": np.full(4, 0.1),
    }
    return {**arrays, **{name.replace("__", "/"): value for name, value in changes.items()}}


def certificate(one: dict[str, np.ndarray], other: dict[str, np.ndarray], dtype: str = "float64"):  # type: ignore[no-untyped-def]
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


def test_equal_traces_are_verified() -> None:
    result = certificate(trace(), trace())
    assert result.ok
    assert "pass all" in result.verdict
    assert result.status_for("a", {"network": "1"}) == "verified"


def test_the_first_divergence_is_the_first_in_the_order_of_training() -> None:
    wrong = trace(
        update__5__conv1=np.ones(4),
        **{"gradient__0__conv1.weight": np.ones(4) * 1.001, "logits__0__logits": np.ones((2, 3))},
    )
    result = certificate(trace(), wrong)
    assert not result.ok
    assert result.first_divergence is not None
    assert result.first_divergence["quantity"] == "gradient"
    assert "conv1.weight" in result.verdict


def certificate_of_three(c: dict[str, np.ndarray]) -> EquivalenceCertificate:
    """Compare two frameworks that agree with a third one."""
    traces = {"a": trace(), "b": trace(), "c": c}
    rows = compare(TraceSet("float64", traces, [traces]))
    about = {"workload": "w", "network": "n", "dataset": "d", "source": "synthetic"}
    return make_certificate(rows, **about, provenance={}, frameworks=tuple(traces), missing={})


def test_the_framework_that_differs_from_all_others_is_named() -> None:
    wrong = trace(**{"gradient__0__conv1.weight": np.full(4, 1.001)})
    assert certificate_of_three(wrong).differing_framework == "c"
    assert certificate_of_three(trace()).differing_framework == ""
    assert certificate(trace(), wrong).differing_framework == ""  # either of two may be wrong


def variant_certificate(variant: dict[str, np.ndarray]) -> EquivalenceCertificate:
    """Compare two frameworks that agree, and a variant of one of them."""
    traces = {"a": trace(), "b": trace(), "b+fast": variant}
    rows = compare(TraceSet("float64", traces, [{"a": trace(), "b": trace()}]))
    about = {"workload": "w", "network": "n", "dataset": "d", "source": "synthetic"}
    variants = {"frameworks": ("a", "b"), "variants": ("b+fast",)}
    return make_certificate(rows, **about, provenance={"network": "1"}, missing={}, **variants)


def test_a_variant_is_compared_with_its_own_framework() -> None:
    assert framework_pairs(["b+fast", "b", "a"]) == [("a", "b"), ("b", "b+fast")]
    result = variant_certificate(trace())
    assert result.status_for("b+fast", {"network": "1"}) == "verified"
    assert "b+fast" in result.verdict


def test_a_diverging_variant_does_not_affect_the_frameworks() -> None:
    result = variant_certificate(trace(**{"update__5__conv1.weight": np.full(4, 0.11)}))
    assert result.status_for("b", {"network": "1"}) == "verified"
    assert "divergence of this variant" in result.status_for("b+fast", {"network": "1"})
    assert "b-b+fast diverge first at update conv1.weight" in result.verdict


def test_a_variant_without_a_certificate_is_not_comparable() -> None:
    result = variant_certificate(trace())
    assert (
        result.status_for("a+fast", {"network": "1"})
        == "not comparable: no certificate for this variant"
    )
    without_tensors = variant_certificate({"initial/0/conv1.weight": np.arange(1.0, 5.0)})
    assert without_tensors.status_for("b+fast", {"network": "1"}).startswith("not comparable")


def test_a_missing_tensor_is_a_divergence() -> None:
    incomplete = trace()
    del incomplete["logits/0/logits"]
    assert not certificate(trace(), incomplete).ok
    assert not certificate(incomplete, trace()).ok


def test_initial_weights_must_be_identical() -> None:
    changed = trace(**{"initial__0__conv1.weight": np.nextafter(np.arange(1.0, 5.0), 9)})
    assert not certificate(trace(), changed).ok


def test_float64_has_a_fixed_bound_and_float32_follows_its_noise() -> None:
    near = trace(**{"gradient__0__conv1.weight": np.ones(4) * (1 + 1e-9)})
    assert FLOAT64_BOUND < 1e-9
    assert not certificate(trace(), near).ok
    assert all(row["ok"] for row in certificate(trace(), near, "float32").rows)
    assert float32_bound([1e-3, 2e-3], []) == pytest.approx(2e-2)
    assert 0 < float32_bound([], []) < 1e-5


def test_the_float32_bound_includes_the_error_of_a_framework_up_to_a_cap() -> None:
    assert float32_bound([1e-7], [8e-6]) == pytest.approx(8e-5)
    assert float32_bound([1e-7], [1e-2]) == pytest.approx(10 * ERROR_CAP)  # a defect, not rounding
    exact = trace()
    inexact = trace(**{"gradient__0__conv1.weight": np.ones(4) * (1 + 9e-6)})
    plain = {"a": exact, "b": inexact}
    assert not all_ok(TraceSet("float32", plain, [plain]))
    assert all_ok(TraceSet("float32", plain, [plain], {}, {"a": exact, "b": exact}))


def all_ok(traces: TraceSet) -> bool:
    return all(row.ok for row in compare(traces))


class RecordingTrace(dict[str, np.ndarray]):
    """A trace that records which tensors are read."""

    def __init__(self) -> None:
        super().__init__(trace())
        self.names: list[str] = []

    def __getitem__(self, name: str) -> np.ndarray:
        self.names.append(name)
        return super().__getitem__(name)


def test_each_tensor_is_read_once_and_lazily() -> None:
    traces = [RecordingTrace() for _ in range(6)]
    plain, rerun = (dict(zip("abc", part, strict=True)) for part in (traces[:3], traces[3:]))
    rows = compare(TraceSet("float64", plain, [rerun]))
    next(rows)
    assert [trace.names for trace in traces] == [["initial/0/conv1.weight"]] * 6
    assert len(list(rows)) == 4 * 3 - 1
    assert [trace.names for trace in traces] == [list(trace())] * 6


def test_a_chaotic_training_is_no_evidence() -> None:
    diverging = trace(**{"update__5__conv1.weight": np.array([0.1, 0.1, 0.1, 0.2])})
    one = {"a": trace(), "b": trace()}
    rows = list(compare(TraceSet("float64", one, [{"a": diverging, "b": diverging}])))
    about = {"workload": "w", "network": "n", "dataset": "d", "source": "synthetic"}
    result = make_certificate(rows, **about, provenance={}, frameworks=("a", "b"), missing={})
    assert all(row.ok for row in rows)
    assert not result.ok
    assert result.verdict == (
        "Not settled: rounding alone could hide a defect in update conv1.weight (float64)."
    )
    assert result.status_for("a", {}) == "not comparable: rounding alone could hide a divergence"
    assert result.mute_share == 1 / 4
    assert mute_counts(result.rows) == [
        {
            "dtype": "float64",
            "quantity": "update",
            "step": 5,
            "mute": 1,
            "comparisons": 1,
            "tensors": "conv1.weight",
        }
    ]


def test_an_outdated_certificate_is_not_valid() -> None:
    result = certificate(trace(), trace())
    assert "another network" in result.status_for("a", {"network": "2"})
    several = {"network": "1", "optimizer": "1", "a version": "1"}
    changed = result.model_copy(update={"provenance": several})
    status = changed.status_for("a", {"network": "2", "optimizer": "2", "a version": "1"})
    assert status == "not comparable: the certificate is of another network and optimizer"
    assert "no certificate for this framework" in result.status_for("c", {"network": "1"})
    broken = certificate(trace(), trace(**{"logits__0__logits": np.zeros((2, 3))}))
    assert "divergence" in broken.status_for("a", {"network": "1"})


def test_a_single_framework_cannot_be_verified() -> None:
    about = {"workload": "w", "network": "n", "dataset": "d", "source": "real"}
    alone = make_certificate(
        [], **about, provenance={}, frameworks=("a",), missing={"b": "not installed"}
    )
    assert not alone.ok
    assert "fewer than two" in alone.verdict


def test_a_certificate_is_read_as_it_was_written(tmp_path: Path) -> None:
    result = certificate(trace(), trace(**{"logits__0__logits": np.zeros((2, 9))}))
    write_certificate(tmp_path / "certificate.json", result)
    assert read_certificate(tmp_path / "certificate.json") == result


def test_a_flipped_unit_in_any_framework_is_noise_for_all_in_float32_only() -> None:
    traces = {name: trace() for name in ("a", "b", "c")}
    traces["b"] = trace(**{"gradient__0__conv1.weight": np.full(4, 1.01)})
    flipped = trace(**{"gradient__0__conv1.weight": np.full(4, 1.01)})
    rerun = {"a": trace(), "b": traces["b"], "c": flipped}

    def of_ab(dtype: str) -> bool:
        rows = compare(TraceSet(dtype, traces, [rerun]))
        (row,) = [row for row in rows if (row.pair, row.quantity) == ("a-b", "gradient")]
        return row.ok

    assert of_ab("float32")
    assert not of_ab("float64")


def failures(trace_set: TraceSet) -> list[tuple[str, str, str]]:
    return [(row.check, row.subject, row.quantity) for row in compare(trace_set) if not row.ok]


POISON = {"update__5__conv1.weight": np.array([0.1, 0.1, np.nan, 0.1])}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_number_that_is_not_finite_is_a_finding_and_never_noise(dtype: str) -> None:
    traces = {name: trace() for name in ("a", "b", "c")}
    traces["b"] = trace(**POISON)
    found = failures(TraceSet(dtype, traces, [traces], {"repeat": traces}))
    assert found[0] == ("finite", "b", "update")
    rows = [row.as_row() for row in compare(TraceSet(dtype, traces, [traces]))]
    about = {"workload": "w", "network": "n", "dataset": "d", "source": "synthetic"}
    result = make_certificate(
        compare(TraceSet(dtype, traces, [traces])),
        **about,
        provenance={},
        frameworks=("a", "b", "c"),
        missing={},
    )
    assert result.verdict == (
        f"Not finite: b has infinite numbers or NaN in update conv1.weight after 5 steps ({dtype})."
    )
    assert all(row["bound"] < 1 for row in rows)


def test_a_rerun_that_is_not_finite_is_a_finding() -> None:
    one = {"a": trace(), "b": trace()}
    rerun = {"a": trace(), "b": trace(**POISON)}
    assert failures(TraceSet("float32", one, [rerun])) == [("finite", "b", "update")]


def test_noise_of_one_framework_is_a_finding_in_float64() -> None:
    one = {"a": trace(), "b": trace(), "c": trace()}
    rerun = {**one, "c": trace(**{"update__5__conv1.weight": np.full(4, 0.1 * (1 + 1e-6))})}
    assert failures(TraceSet("float64", one, [rerun])) == [("noise", "c", "update")]
    assert not failures(TraceSet("float32", one, [rerun]))  # a unit at its kink
    assert noise_limit([]) == noise_limit([1e-9]) == np.inf  # nothing to compare with
    assert noise_limit([1e-12]) == pytest.approx(1e-8)


def test_bounds_have_a_ceiling() -> None:
    assert float32_bound([5.0], []) == MAX_BOUND
    assert continuous_bound([5.0], [2.0]) == MAX_BOUND
    assert float32_bound([np.inf, np.nan], []) < 1e-5


@pytest.mark.parametrize("check", ["repeat", "rows", "instrumented", "profiled"])
def test_a_training_that_differs_from_its_own_is_named(check: str) -> None:
    traces = {name: trace() for name in ("a", "b", "c")}
    changed = trace(**{"update__5__conv1.weight": np.full(4, 0.11)})
    # The noise of the trainer itself does not widen the bound.
    rerun = {**traces, "b": changed}
    checks = {check: {**traces, "b": changed}}
    found = failures(TraceSet("float64", traces, [rerun], checks))
    assert (check, "b", "update") in found
    assert {subject for _, subject, _ in found} == {"b"}


def test_a_short_training_is_compared_as_far_as_it_goes() -> None:
    traces = {"a": trace(), "b": trace()}
    short = {"update/5/conv1.weight": np.full(4, 0.1)}
    rows = list(compare(TraceSet("float64", traces, (), {"repeat": {"a": short, "b": short}})))
    assert all(row.ok for row in rows)
    assert [row.subject for row in rows if row.check == "repeat"] == ["a", "b"]


def test_loss_and_inputs_are_compared_with_numpy() -> None:
    def traced(expected: float) -> dict[str, np.ndarray]:
        own = {"loss__0__loss": np.array(2.0), "expected__0__loss": np.array(expected)}
        return trace(**own)

    same = {"a": traced(2.0), "b": traced(2.0)}
    assert not failures(TraceSet("float64", same))
    both_wrong = {"a": traced(2.1), "b": traced(2.1)}
    found = failures(TraceSet("float64", both_wrong))
    assert found == [("reference", "a", "loss"), ("reference", "b", "loss")]


def test_reduced_precision_is_found_by_the_bits_of_the_values() -> None:
    values = np.random.default_rng(1).normal(size=(16, 10)).astype(np.float32)
    assert not has_reduced_precision(values)
    assert has_reduced_precision(values.astype(np.float16).astype(np.float32))
    bfloat16 = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    assert has_reduced_precision(bfloat16)
    assert not has_reduced_precision(values.astype(np.float64))
    assert not has_reduced_precision(np.zeros((16, 10), np.float32))
    assert not has_reduced_precision(np.arange(16, dtype=np.float32))  # few values, by chance
    rounded = {name: trace(**{"logits__0__logits": values}) for name in ("a", "b")}
    rounded["b"]["logits/0/logits"] = values.astype(np.float16).astype(np.float32)
    assert failures(TraceSet("float32", rounded))[0] == ("precision", "b", "logits")


def test_one_inaccurate_framework_does_not_widen_the_bound_of_logits() -> None:
    assert continuous_bound([1e-6], [4e-7, 1e-4, 4e-7]) == pytest.approx(CONTINUOUS_FACTOR * 1e-6)
    assert continuous_bound([1e-6, 1e-4, 1e-6], []) == pytest.approx(CONTINUOUS_FACTOR * 1e-6)
    exact = {name: trace() for name in ("a", "b", "c")}
    traces = {**exact, "b": trace(**{"logits__0__logits": np.full((2, 3), 1 + 3e-5)})}
    found = failures(TraceSet("float32", traces, [traces], float64_reference=exact))
    assert found == [("frameworks", "", "logits")] * 2


@pytest.mark.parametrize(("loss", "is_equal"), [(4.0, False), (1.0, False), (0.5, True)])
def test_the_rounding_of_a_small_loss_is_that_of_numbers_of_order_one(
    loss: float, is_equal: bool
) -> None:
    relative = 1.5 * CONTINUOUS_FLOOR_ULPS * np.finfo(np.float32).eps
    traces = {
        name: trace(loss__0__loss=np.array(value))
        for name, value in {"a": loss, "b": loss, "c": loss * (1 + relative)}.items()
    }
    found = failures(TraceSet("float32", traces, float64_reference=traces))
    assert (not found) == is_equal


def test_equal_examples_whose_errors_do_not_average_out_are_within_the_bound() -> None:
    # The mean loss of MXNet over images of one colour in two classes, beside that of the others.
    loss, distance = np.log(2), 2.88e-6
    traces = {
        name: trace(loss__0__loss=np.array(value))
        for name, value in {"a": loss, "b": loss, "c": loss * (1 + distance)}.items()
    }
    assert not failures(TraceSet("float32", traces, float64_reference=traces))


def test_a_certificate_of_an_earlier_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    write_certificate(path, certificate(trace(), trace()))
    path.write_text(path.read_text().replace(f'"format": {FORMAT}', '"format": 4'))
    with pytest.raises(UserError, match="horizont verify"):
        read_certificate(path)
