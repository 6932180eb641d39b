"""Update rules for the tests."""

from __future__ import annotations

from horizont.config.workload import OptimizerConfig

RULES = {
    "none": OptimizerConfig(learning_rate=0.05),
    "decay": OptimizerConfig(learning_rate=0.05, weight_decay=0.01),
    "momentum": OptimizerConfig(learning_rate=0.02, momentum=0.9, weight_decay=1e-3),
    "nesterov": OptimizerConfig(learning_rate=0.02, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": OptimizerConfig(name="adam", learning_rate=1e-3, epsilon=1e-3, weight_decay=1e-3),
}
