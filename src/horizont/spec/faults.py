"""The deliberate mistakes that the comparator must catch, and where each must show first.

What each of them does is in :mod:`horizont.worker.faults`.
"""

from __future__ import annotations

from horizont.spec.base import Frozen


class FaultInfo(Frozen):
    """A mistake.

    Attributes
    ----------
    mistake
        What is wrong, in a few words.
    quantity, step
        What departs first, and after how many steps at the latest.
    needs
        What a workload must have for the mistake to be possible; nothing suits all.
    """

    mistake: str
    quantity: str
    step: int = 0
    needs: str = ""


FAULT_INFOS: dict[str, FaultInfo] = {
    "padding": FaultInfo(
        mistake="the first convolution padded by one more", quantity="logits", needs="images"
    ),
    "flatten_order": FaultInfo(
        mistake="flattened with the channels last", quantity="logits", needs="images"
    ),
    "pooling_mode": FaultInfo(mistake="pooling by average", quantity="logits", needs="images"),
    "gate_order": FaultInfo(
        mistake="LSTM gates in another order", quantity="logits", needs="a text"
    ),
    "norm_epsilon": FaultInfo(
        mistake="batch norm with epsilon 1e-3", quantity="logits", needs="batch norm"
    ),
    "loss_reduction": FaultInfo(mistake="loss summed, not averaged", quantity="loss"),
    "label_shift": FaultInfo(mistake="every label off by one", quantity="loss", needs="images"),
    "scaled_gradient": FaultInfo(
        mistake="one layer's gradient scaled by 1.001", quantity="gradient"
    ),
    "initial_weights": FaultInfo(mistake="last matrix 1% too large", quantity="initial"),
    "learning_rate": FaultInfo(mistake="learning rate 1% too large", quantity="update", step=1),
    "nesterov": FaultInfo(mistake="Nesterov's momentum, not plain", quantity="update", step=1),
    "norm_momentum": FaultInfo(
        mistake="statistics tracked with momentum 0.99",
        quantity="statistics",
        step=1,
        needs="batch norm",
    ),
    "decayed_biases": FaultInfo(mistake="weight decay on biases, too", quantity="update", step=2),
    "data_order": FaultInfo(mistake="two batches swapped", quantity="update", step=2),
    "mixed_states": FaultInfo(
        mistake="states carried on to other rows", quantity="update", step=2, needs="a text"
    ),
    "dropped_partial_batch": FaultInfo(
        mistake="uneven last batch dropped", quantity="update", step=3, needs="images"
    ),
}
