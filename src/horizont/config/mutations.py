"""Seeded defects that the comparator must detect, and where each must show first.

:mod:`horizont.training.mutations` applies them.
"""

from __future__ import annotations

from horizont.config.base import ConfigModel


class MutationInfo(ConfigModel):
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


MUTATIONS: dict[str, MutationInfo] = {
    "padding": MutationInfo(
        description="the first convolution padded by one more", quantity="logits", requires="images"
    ),
    "flatten_order": MutationInfo(
        description="flattened with the channels last", quantity="logits", requires="images"
    ),
    "pooling_mode": MutationInfo(
        description="pooling by average", quantity="logits", requires="images"
    ),
    "gate_order": MutationInfo(
        description="LSTM gates in another order", quantity="logits", requires="text"
    ),
    "norm_epsilon": MutationInfo(
        description="batch norm with epsilon 1e-3", quantity="logits", requires="batch norm"
    ),
    "loss_reduction": MutationInfo(description="loss summed, not averaged", quantity="loss"),
    "label_shift": MutationInfo(
        description="every label off by one", quantity="loss", requires="images"
    ),
    "scaled_gradient": MutationInfo(
        description="one layer's gradient scaled by 1.001", quantity="gradient"
    ),
    "initial_weights": MutationInfo(description="last matrix 1% too large", quantity="initial"),
    "learning_rate": MutationInfo(
        description="learning rate 1% too large", quantity="update", step=1
    ),
    "nesterov": MutationInfo(
        description="Nesterov's momentum, not plain", quantity="update", step=1
    ),
    "norm_momentum": MutationInfo(
        description="statistics tracked with momentum 0.99",
        quantity="statistics",
        step=1,
        requires="batch norm",
    ),
    "decayed_biases": MutationInfo(
        description="weight decay on biases, too", quantity="update", step=2
    ),
    "data_order": MutationInfo(description="two batches swapped", quantity="update", step=2),
    "mixed_states": MutationInfo(
        description="states carried on to other rows", quantity="update", step=2, requires="text"
    ),
    "dropped_partial_batch": MutationInfo(
        description="uneven last batch dropped", quantity="update", step=3, requires="images"
    ),
}
