"""The losses of two sides: one result and classes, and what differs in what is computed of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from horizont.modeldiff.distances import Difference, distance
from horizont.modeldiff.loss_rules import (
    BOUND,
    CLASS_WEIGHTS,
    SEPARATE_MEANS,
    Rule,
    identified,
    loss_and_gradient,
)
from horizont.modeldiff.process import RunFailed
from horizont.modeldiff.recording import Array, Repair, Side
from horizont.modeldiff.repairs import Candidate, both_shown
from horizont.modeldiff.search import Explanation, explain

QUANTITIES = ("loss of a given result", "gradient of the loss")

#: How many examples a result without steps has.
_EXAMPLES = 16

#: How many weights of classes are shown.
_SHOWN = 8

#: The setting with which all others are repaired.
_WHOLE = "loss"


def compare_losses(a: Side, b: Side, result: Array) -> Explanation:
    """Compare the losses that both sides have.

    Parameters
    ----------
    result
        One of side B, of which the shape is used.
    """
    if not (a.has_loss and b.has_loss):
        alone = [each.name for each in (a, b) if each.has_loss]
        return Explanation(note=f"only side {alone[0]} has a loss of its own" if alone else "")
    if result.ndim not in (1, 2, 3):
        text = "losses are compared for results of examples or steps, and classes or one number"
        return Explanation(unknown=f"the losses were not compared: {text}")
    given, classes = given_result(result.shape)
    try:
        both = [side.loss(given, classes) for side in (a, b)]
    except RunFailed as error:
        return Explanation(unknown=f"the losses were not compared: {error}")
    plain = _differences(*both)
    if not any(each.exceeds for each in plain):
        return Explanation(remaining=plain)
    rules = [identified(given, classes, *each) for each in both]
    if rules[0] is not None and rules[1] is None and b.processes > 1:
        # The mean of some parts may follow the same rule as the other side has for all.
        divided = {**rules[0], SEPARATE_MEANS: b.processes}
        found = loss_and_gradient(divided, given, classes)
        if not any(each.exceeds for each in _differences(found, both[1])):
            rules[1] = divided
    for side, rule in zip((a, b), rules, strict=True):
        if rule is None:
            exceeding = tuple(each for each in plain if each.exceeds)
            note = f"the loss of side {side.name} is none that Horizont knows"
            return Explanation(unexplained=exceeding, remaining=plain, note=note)
    rule_a, rule_b = rules
    assert rule_a is not None
    assert rule_b is not None

    def trial(chosen: Sequence[Candidate]) -> list[Difference]:
        repairs = {each.key: each.value for candidate in chosen for each in candidate.repairs}
        return list(_differences(loss_and_gradient({**rule_a, **repairs}, given, classes), both[1]))

    return explain(_candidates(rule_a, rule_b), trial)


def given_result(shape: Sequence[int]) -> tuple[Array, Array]:
    """Return rows that may be logits or probabilities, and classes, with the first and the last.

    For a result of one number per example, numbers between 0 and 1, and zeros and ones.
    """
    generator = np.random.default_rng(6)
    examples = shape[0] if len(shape) > 2 else max(shape[0], _EXAMPLES)
    # An array of classes must not have a shape that the result could be combined with.
    examples += examples == shape[-1]
    if len(shape) == 1 or shape[-1] == 1:
        numbers = generator.uniform(0.05, 0.95, size=(examples, *shape[1:]))
        classes = generator.integers(2, size=numbers.shape)
        classes.flat[0], classes.flat[-1] = 0, 1
        return numbers, classes
    powers = np.exp(generator.normal(size=(examples, *shape[1:])))
    classes = generator.integers(shape[-1], size=powers.shape[:-1])
    classes.flat[0], classes.flat[-1] = 0, shape[-1] - 1
    return powers / powers.sum(axis=-1, keepdims=True), classes


def _differences(a: tuple[float, Array], b: tuple[float, Array]) -> tuple[Difference, Difference]:
    loss = distance(np.array(a[0]), np.array(b[0]))
    gradient = distance(a[1], b[1])
    return Difference(QUANTITIES[0], "", "", loss, BOUND), Difference(
        QUANTITIES[1], "", "", gradient, BOUND
    )


def _candidates(rule_a: Rule, rule_b: Rule) -> list[Candidate]:
    """List the settings in which two rules differ; of two losses, the names."""
    is_whole = rule_a[_WHOLE] != rule_b[_WHOLE]
    return [
        Candidate(
            key if key == _WHOLE else f"{key} of the loss",
            *both_shown(_value(rule_a, key), _value(rule_b, key)),
            (),
            tuple(Repair("", name, rule_b[name]) for name in (rule_b if is_whole else (key,))),
            is_training_only=True,
        )
        for key in ([_WHOLE] if is_whole else rule_a)
        if rule_a[key] != rule_b[key]
    ]


def _value(rule: Rule, key: str) -> Any:
    """Return a setting as it is shown: weights of classes relative to the smallest."""
    value = rule[key]
    if key != CLASS_WEIGHTS or value is None:
        return value
    relative = [f"{each / min(value.values()):.4g}" for each in value.values()]
    return relative if len(relative) <= _SHOWN else f"{len(relative)} different ones"
