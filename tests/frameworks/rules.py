"""Update rules to be tried."""

from __future__ import annotations

from horizont.spec import Optimizer

RULES = {
    "plain": Optimizer(learning_rate=0.05),
    "decay": Optimizer(learning_rate=0.05, weight_decay=0.01),
    "momentum": Optimizer(learning_rate=0.02, momentum=0.9, weight_decay=1e-3),
    "nesterov": Optimizer(learning_rate=0.02, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": Optimizer(name="adam", learning_rate=1e-3, epsilon=1e-3, weight_decay=1e-3),
}
