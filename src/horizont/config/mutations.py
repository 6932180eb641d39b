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
        The quantity that diverges first, and after how many steps at the latest.
    requires
        What a workload must have for the defect to be possible; empty for any workload.
    """

    description: str
    quantity: str
    step: int = 0
    requires: str = ""


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
    "mixed_states": MutationInfo("states carried on to other rows", "update", 2, "text"),
    "dropped_partial_batch": MutationInfo("uneven last batch dropped", "update", 3, "images"),
}
