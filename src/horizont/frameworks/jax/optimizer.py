"""Update rules: transformations of optax, which compute what the other frameworks compute."""

from __future__ import annotations

from typing import Any

import optax

from horizont.frameworks.base import TrainingSetup, Weights
from horizont.frameworks.jax.model import to_canonical

#: Optax's names of the optimizer slots.
SLOTS = {"velocity": "trace", "first": "mu", "second": "nu"}


def build_optimizer(setup: TrainingSetup) -> optax.GradientTransformation:
    """Build the chain of clipping, weight decay and update rule, as far as each is configured."""
    config = setup.optimizer
    chain = []
    if config.clip_norm:
        chain.append(optax.clip_by_global_norm(config.clip_norm))
    if config.weight_decay:
        is_decayed = {name: bool(setup.weight_decay_of(name)) for name in setup.weights}
        chain.append(optax.add_decayed_weights(config.weight_decay, is_decayed))
    if config.name == "adam":
        chain.append(optax.adam(config.learning_rate, config.beta1, config.beta2, config.epsilon))
    else:
        chain.append(optax.sgd(config.learning_rate, config.momentum or None, config.nesterov))
    return optax.chain(*chain)


def slot_values(setup: TrainingSetup, state: Any) -> Weights:
    """Return the state of each weight as ``<weight>.<slot>``, in canonical layout."""
    slots = {
        slot: to_canonical(setup.network, optax.tree_utils.tree_get(state, SLOTS[slot]))
        for slot in setup.optimizer.slots
    }
    return {
        f"{name}.{slot}": values[name] for name in setup.weights for slot, values in slots.items()
    }
