"""Seeded defects that the comparator must detect, and where each must show first.

:mod:`horizont.training.mutations` applies them.
"""

from __future__ import annotations

from typing import NamedTuple


class MutationInfo(NamedTuple):
    """A seeded defect.

    Attributes
    ----------
    quantity, step
        The quantity that diverges first, and after how many steps at the latest; with how many
        examples for a step with a batch size of the study.
    requires
        What a workload must have for the defect to be possible; empty for any workload.
    check
        The check of `horizont.equivalence.compare` that must find it.
    dtype
        The precision that must show it.
    """

    description: str
    quantity: str
    step: int = 0
    requires: str = ""
    check: str = "frameworks"
    dtype: str = "float64"


#: The steps of a mutation test; the last batch is a partial one.
MUTATION_STEPS = 5

#: The step whose update is defective, in mutations of a single update.
DEFECTIVE_STEP = 4

#: The steps of the runs that compare a training with another of its own.
_SHORT_STEPS = MUTATION_STEPS - 1

#: The largest batch that the mutations of large batches leave as it is.
LARGEST_PRECISE_BATCH = 32

_ANY_BATCH = 1 << 20

MUTATIONS = {
    "padding": MutationInfo("the first convolution padded by one more", "logits", 0, "images"),
    "flatten_order": MutationInfo("flattened with the channels last", "logits", 0, "images"),
    "pooling_mode": MutationInfo("pooling by average", "logits", 0, "images"),
    "gate_order": MutationInfo("LSTM gates in another order", "logits", 0, "text"),
    "norm_epsilon": MutationInfo("batch norm with epsilon 1e-3", "logits", 0, "batch norm"),
    "loss_reduction": MutationInfo("loss summed, not averaged", "loss"),
    "label_shift": MutationInfo("every label off by one", "loss", 0, "images"),
    "scaled_gradient": MutationInfo("one layer's gradient scaled by 1.001", "gradient"),
    "initial_weights": MutationInfo("last matrix 1% too large", "initial"),
    "learning_rate": MutationInfo("learning rate 1% too large", "update", 1),
    "nesterov": MutationInfo("Nesterov's momentum, not plain", "update", 1),
    "norm_momentum": MutationInfo(
        "statistics tracked with momentum 0.99", "statistics", 1, "batch norm"
    ),
    "decayed_biases": MutationInfo("weight decay on biases, too", "update", 2),
    "data_order": MutationInfo("two batches swapped", "update", 2),
    "dropped_update": MutationInfo("the fourth update dropped", "update", DEFECTIVE_STEP),
    "dropped_partial_batch": MutationInfo(
        "uneven last batch dropped", "update", MUTATION_STEPS, "images"
    ),
    "padded_partial_batch": MutationInfo(
        "uneven last batch padded with the first examples", "update", MUTATION_STEPS, "images"
    ),
    "nan_weights": MutationInfo(
        "weights NaN from the fourth update on", "update", DEFECTIVE_STEP, "", "finite"
    ),
    "random_flips": MutationInfo(
        "images flipped at random from the second batch on",
        "update",
        _SHORT_STEPS,
        "images",
        "repeat",
    ),
    "repeated_example": MutationInfo(
        "first example counted twice from the second step on",
        "update",
        _SHORT_STEPS,
        "images",
        "rows",
    ),
    "mixed_states": MutationInfo("rows in another order at each step", "update", 2, "text", "rows"),
    "neighbouring_state": MutationInfo(
        "states handed to the next row", "update", 2, "text", "rows"
    ),
    "shared_state": MutationInfo("state of the last row for all", "update", 2, "text", "rows"),
    "training_mode": MutationInfo(
        "evaluation with the statistics of the batch", "evaluation", 0, "batch norm"
    ),
    "instrumented_update": MutationInfo(
        "instrumented steps without an update", "update", 1, "", "instrumented"
    ),
    "profiled_update": MutationInfo(
        "profiled steps without an update", "update", 1, "", "profiled"
    ),
    "float16_logits": MutationInfo(
        "float16 logits in float32 training", "logits", 0, "", "precision", "float32"
    ),
    "inaccurate_logits": MutationInfo(
        "logits wrong by 1e-4 in float32 training", "logits", 0, "", "frameworks", "float32"
    ),
    "float16_batches": MutationInfo(
        "float16 weights after batches of more than 32 examples",
        *("batch", _ANY_BATCH, "large batches", "frameworks", "float32"),
    ),
}
