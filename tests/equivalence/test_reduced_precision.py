"""Variants whose float32 products round their inputs to fewer bits, such as TF32."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from horizont.config.system import float32_rounding
from horizont.equivalence.certificate import EquivalenceCertificate, make_certificate
from horizont.equivalence.compare import TraceSet, compare

TRAINERS = ("pytorch", "jax", "pytorch+tf32+cuda")
ABOUT = {"workload": "w", "network": "n", "dataset": "d", "source": "synthetic"}


def test_the_rounding_follows_from_the_bits_of_the_mantissa() -> None:
    assert float32_rounding("pytorch+tf32+cuda") == float32_rounding("jax+tf32+cuda") == 2**13
    assert float32_rounding("pytorch+compiled+cuda") == float32_rounding("jax") == 1
    assert float32_rounding("unknown+tf32+cuda") == 1


def to_tf32(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round to nearest in ten bits after the point, the ties to even."""
    bits = values.view(np.uint32).astype(np.uint64)
    dropped = np.uint64(13)
    half = np.uint64((1 << 12) - 1) + ((bits >> dropped) & np.uint64(1))
    rounded = ((bits + half) >> dropped) << dropped
    return rounded.astype(np.uint32).view(np.float32)


def product(trainer: str, dtype: str, factor: float = 1.0) -> NDArray[np.float64]:
    """Multiply two matrices as a trainer would; the factor is a defect."""
    random = np.random.default_rng(3)
    one, other = (random.standard_normal((64, 64)).astype(dtype) for _ in range(2))
    if dtype == "float32" and "tf32" in trainer:
        one, other = to_tf32(one), to_tf32(other)
    # The frameworks add in another order.
    order = slice(None) if trainer == "pytorch" else slice(None, None, -1)
    result: NDArray[np.float64] = one[:, order] @ other[order] * np.asarray(factor, dtype)
    return result


def certificate(
    defects: dict[str, float], rounding: dict[str, float] | None = None
) -> EquivalenceCertificate:
    """Compare the trainers in both precisions; the defects are factors by precision."""
    rows = []
    exact: dict[str, dict[str, NDArray[np.float64]]] = {}
    for dtype in ("float64", "float32"):
        traces = {}
        for name in TRAINERS:
            factor = defects.get(dtype, 1.0) if "tf32" in name else 1.0
            value = product(name, dtype, factor)
            traces[name] = {
                "logits/0/logits": value,
                "gradient/0/fc.weight": value,
                "update/1/fc.weight": value,
                "step_loss/1/loss": np.abs(value[:1, :1]).astype(dtype),
            }
        if rounding is None:
            rounding = {name: float32_rounding(name) for name in TRAINERS}
        trace_set = TraceSet(dtype, traces, [traces], float64_reference=exact, rounding=rounding)
        rows += list(compare(trace_set))
        exact = traces
    names = {"frameworks": TRAINERS[:2], "variants": TRAINERS[2:]}
    return make_certificate(rows, **ABOUT, provenance={}, missing={}, **names)


def test_a_variant_in_tf32_is_verified_by_its_float64_training() -> None:
    result = certificate({})
    assert result.status_for("pytorch+tf32+cuda", {}) == "verified"
    assert result.ok


def test_without_the_ratio_of_the_roundings_it_would_diverge() -> None:
    result = certificate({}, rounding={})
    assert "divergence" in result.status_for("pytorch+tf32+cuda", {})


@pytest.mark.parametrize("defects", [{"float64": 1 + 1e-9}, {"float32": 1.5}])
def test_a_defect_in_either_precision_is_found(defects: dict[str, float]) -> None:
    result = certificate(defects)
    assert "divergence of this variant" in result.status_for("pytorch+tf32+cuda", {})
    assert result.status_for("pytorch", {}) == "verified"


def test_its_bounds_say_nothing_about_the_losses_of_the_others() -> None:
    result = certificate({})
    assert result.loss_bound < 1e-3
    own = [row for row in result.rows if row["subject"] and row["dtype"] == "float32"]
    assert not any(row["is_evidence"] for row in own)
