"""What a certificate must have evidence for: where a bound is so wide that a defect could hide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from horizont.config.system import float32_rounding

#: The fields of a comparison.
Row = Mapping[str, Any]

#: Quantities of which every comparison must be evidence, by precision. Updates and states follow
#: from these until rounding hides them; of those only the first step must be evidence.
_REQUIRED_QUANTITIES = {
    "float64": ("initial", "inputs", "logits", "loss", "gradient", "evaluation", "batch", "rate"),
    "float32": ("initial", "inputs", "logits", "loss", "evaluation"),
}
_REQUIRED_AT_FIRST_STEP = ("update", "statistics", "state", "optimizer")


def evidence_gaps(rows: Sequence[Row]) -> list[str]:
    """List the quantities that matter without evidence: which rounding alone could hide.

    All of these must be evidence: in float64 initial weights, inputs, logits, loss, all gradients,
    the evaluation and a step with each timed batch size and learning rate; updates, statistics and
    states after the first step that was compared; in float32 logits, loss and evaluation, unless
    a variant rounds float32 to fewer bits.
    """
    compared = [
        row
        for row in rows
        if row["check"] in ("frameworks", "variant")
        and (row["dtype"] == "float64" or float32_rounding(row["subject"]) == 1)
    ]
    required = [row for dtype in _REQUIRED_QUANTITIES for row in _required_rows(compared, dtype)]
    gaps = [f"{row['quantity']} {row['tensor']} ({row['dtype']})" for row in required]
    mute = [gap for gap, row in zip(gaps, required, strict=True) if not row["is_evidence"]]
    missing = [
        f"{quantity} (float64): not compared"
        for quantity in ("gradient", "update")
        if not any((row["quantity"], row["dtype"]) == (quantity, "float64") for row in compared)
    ]
    return list(dict.fromkeys([*missing, *mute]))


def _required_rows(rows: Sequence[Row], dtype: str) -> list[Row]:
    of_dtype = [row for row in rows if row["dtype"] == dtype]
    required = [row for row in of_dtype if row["quantity"] in _REQUIRED_QUANTITIES[dtype]]
    if dtype == "float64":
        for quantity in _REQUIRED_AT_FIRST_STEP:
            own = [row for row in of_dtype if row["quantity"] == quantity]
            first = min((row["step"] for row in own), default=0)
            required += [row for row in own if row["step"] == first]
    return required


def mute_counts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Count the comparisons that are no evidence, by precision, quantity and step.

    Returns
    -------
    list
        Rows with ``dtype``, ``quantity``, ``step``, ``mute``, ``comparisons`` and ``tensors``, the
        names of the mute ones; only groups with mute comparisons.
    """

    def key(row: Row) -> tuple[str, str, int]:
        return row["dtype"], row["quantity"], row["step"]

    counts = []
    for (dtype, quantity, step), grouped in groupby(sorted(rows, key=key), key=key):
        group = list(grouped)
        mute = [row for row in group if not row["is_evidence"]]
        if mute:
            counts.append(
                {
                    "dtype": dtype,
                    "quantity": quantity,
                    "step": step,
                    "mute": len(mute),
                    "comparisons": len(group),
                    "tensors": ", ".join(dict.fromkeys(row["tensor"] for row in mute)),
                }
            )
    return counts
