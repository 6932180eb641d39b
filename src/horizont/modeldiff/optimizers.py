"""The optimizers of two sides: the same gradients, some updates, and what differs in their rules.

The gradients are random numbers of many sizes, so that the optimizers are compared apart from the
models. Each side updates its own tensors. Its rule is read from the settings of its optimizer, and
believed only if `update_rules` computes the same updates from it; what implementations define
without a setting is found by trying. A difference of settings is a cause if side A's updates,
computed with side B's value, come within the bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from horizont.equivalence.bounds import norm
from horizont.modeldiff.distances import Difference
from horizont.modeldiff.pairing import STATISTICS, Pairing, transfer
from horizont.modeldiff.process import RunFailed
from horizont.modeldiff.recording import Array, Repair, Side
from horizont.modeldiff.repairs import Candidate, both_shown
from horizont.modeldiff.search import Explanation, explain
from horizont.modeldiff.update_rules import DEFAULTS, Gradients, Rule, simulate, variants

#: Gradients are small in the last steps: some rules remember the larger ones.
STEPS, LARGE_STEPS = 8, 3
SMALL = 1e-3
QUANTITY = f"weight after {STEPS} updates"

#: Of distances relative to the change. Some optimizers compute 1 - 0.999 in single precision, even
#: if the weights have double precision, and lose three of seven digits.
BOUND = 1e-4

#: The setting with which all others are repaired.
_WHOLE = "rule"

#: Settings that have no meaning without another one, and are repaired with it.
_PLACES = {"weight decay": "place of the weight decay", "epsilon": "place of the epsilon"}

#: What frameworks define, and no model chose.
_OF_FRAMEWORK = ("place of the epsilon",)


def compare_optimizers(
    a: Side, b: Side, pairing: Pairing, weights: Mapping[str, Array]
) -> Explanation:
    """Compare the optimizers that both sides have.

    Parameters
    ----------
    weights
        Weights of side B, from which both start.
    """
    if not (a.has_optimizer and b.has_optimizer):
        alone = [each.name for each in (a, b) if each.has_optimizer]
        text = "has an optimizer of its own: updates were compared by SGD alone"
        return Explanation(note=f"only side {alone[0]} {text}" if alone else "")
    start_a = transfer(pairing, weights)
    try:
        rules_a, rules_b = a.rules(), b.rules()
        names = _tensors(pairing, rules_a, rules_b)
        of_both = _gradients({key: weights[name] for key, name in names.items()})
        of_a = [
            {key: value.reshape(start_a[key].shape) for key, value in each.items()}
            for each in of_both
        ]
        of_b = [{names[key]: value for key, value in each.items()} for each in of_both]
        after_a, after_b = a.update(start_a, of_a), b.update(weights, of_b)
    except RunFailed as error:
        return Explanation(unknown=f"the optimizers were not compared: {error}")
    both = _Both(
        {key: (start_a[key], after_a[key]) for key in names},
        {key: (weights[name], after_b[name]) for key, name in names.items()},
        list(map(Gradients, of_a)),
        list(map(Gradients, of_both)),
    )
    return both.compare(
        {key: rules_a[key] for key in names},
        {key: rules_b[name] for key, name in names.items()},
    )


def _tensors(
    pairing: Pairing, rules_a: Mapping[str, Rule], rules_b: Mapping[str, Rule]
) -> dict[str, str]:
    """Return the tensors that both sides train: by their name on side A, that on side B."""
    return {
        f"{pair.a.name}|{one}": f"{pair.b.name}|{other}"
        for pair in pairing.pairs
        for one, other in pair.shared_roles
        if one not in STATISTICS
        and f"{pair.a.name}|{one}" in rules_a
        and f"{pair.b.name}|{other}" in rules_b
    }


def _gradients(weights: Mapping[str, Array]) -> list[dict[str, Array]]:
    """Return gradients of many sizes, from a millionth to three; steps have much in common.

    Those after the first `LARGE_STEPS` are smaller by the factor `SMALL`.
    """
    steps: list[dict[str, Array]] = [{} for _ in range(STEPS)]
    for number, (key, value) in enumerate(weights.items()):
        common = np.random.default_rng([number, 0])
        size = 10 ** common.uniform(-6.0, 0.5, size=value.shape)
        direction = common.normal(size=value.shape)
        for step, gradients in enumerate(steps, 1):
            own = np.random.default_rng([number, step]).normal(size=value.shape)
            factor = 1.0 if step <= LARGE_STEPS else SMALL
            gradients[key] = factor * size * (direction + own)
    return steps


Updated = Mapping[str, tuple[Array, Array]]


@dataclass(frozen=True)
class _Both:
    """Updates of both sides: tensors before and after them, by their names on side A."""

    a: Updated
    b: Updated
    gradients_a: Sequence[Gradients]
    gradients_b: Sequence[Gradients]

    def compare(self, hints_a: Mapping[str, Rule], hints_b: Mapping[str, Rule]) -> Explanation:
        after_a = {key: after for key, (_, after) in self.a.items()}
        plain = self._differences(after_a)
        if not any(each.exceeds for each in plain):
            return Explanation(remaining=tuple(plain))
        rules_a = identified(hints_a, self.a, self.gradients_a)
        rules_b = identified(hints_b, self.b, self.gradients_b)
        if rules_a is None or rules_b is None:
            exceeding = tuple(each for each in plain if each.exceeds)
            side = "A" if rules_a is None else "B"
            text = f"the optimizer of side {side} is none that Horizont knows"
            return Explanation(unexplained=exceeding, remaining=tuple(plain), note=text)
        candidates = _candidates(rules_a, rules_b)
        start = {key: before for key, (before, _) in self.a.items()}

        def trial(chosen: Sequence[Candidate]) -> list[Difference]:
            rules = _repaired(rules_a, chosen)
            return self._differences(simulate(rules, start, self.gradients_a))

        return explain(candidates, trial)

    def _differences(self, after_a: Mapping[str, Array]) -> list[Difference]:
        return [
            Difference(QUANTITY, *_split(key), _distance(after_a[key], *self.b[key]), BOUND)
            for key in self.b
        ]


def _split(key: str) -> tuple[str, str]:
    layer, _, role = key.rpartition("|")
    return layer, role


def _distance(value: Array, before: Array, after: Array) -> float:
    """Return the distance of a tensor from one after updates, relative to their change."""
    change, moved = norm(after - before), norm(value.reshape(after.shape) - after)
    if not np.isfinite(moved):
        return float("inf")
    return moved / change if change else moved


def identified(
    hints: Mapping[str, Rule], updated: Updated, gradients: Sequence[Gradients]
) -> dict[str, Rule] | None:
    """Return the rules that compute the updates of a side; None if one is not known."""
    found: dict[str, Rule] = {}
    used: dict[str, list[Rule]] = {}
    for key in sorted(updated, key=lambda name: updated[name][0].size):
        if hints[key]["rule"] not in DEFAULTS:
            return None
        # Tensors with the same settings have the same rule in general.
        earlier = used.setdefault(repr(sorted(hints[key].items())), [])
        for rule in [*earlier, *variants(hints[key])]:
            after = simulate({key: rule}, {key: updated[key][0]}, gradients)[key]
            if _distance(after, *updated[key]) <= BOUND:
                found[key] = rule
                if rule not in earlier:
                    earlier.append(rule)
                break
        else:
            return None
    return {key: found[key] for key in updated}


def _candidates(rules_a: Mapping[str, Rule], rules_b: Mapping[str, Rule]) -> list[Candidate]:
    """List the settings that differ, tensors with the same values together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for key, one in rules_a.items():
        other = rules_b[key]
        for setting in _different(one, other):
            values = one.get(setting), other.get(setting)
            groups.setdefault((setting, repr(values)), []).append(key)
    found = []
    for (setting, _), keys in groups.items():
        one, other = rules_a[keys[0]], rules_b[keys[0]]
        repaired = [setting]
        if setting == _WHOLE:
            repaired = sorted(one.keys() | other.keys())
        elif setting in _PLACES and not (one[setting] and other[setting]):
            repaired.append(_PLACES[setting])
        candidate = Candidate(
            f"{setting} of the optimizer",
            *both_shown(one.get(setting), other.get(setting)),
            tuple(key.replace("|", ": ") for key in keys),
            tuple(Repair(key, name, rules_b[key].get(name)) for key in keys for name in repaired),
            of_framework=setting in _OF_FRAMEWORK,
            is_training_only=True,
        )
        found.append(candidate)
    return found


def _different(one: Rule, other: Rule) -> list[str]:
    """List the settings in which two rules differ; of two rules, the names."""
    if one[_WHOLE] != other[_WHOLE]:
        return [_WHOLE]
    unused = {
        place for setting, place in _PLACES.items() if not (one.get(setting) and other.get(setting))
    }
    return [key for key in one if key not in unused and one[key] != other[key]]


def _repaired(rules: Mapping[str, Rule], chosen: Sequence[Candidate]) -> Mapping[str, Rule]:
    """Return rules with the settings of the other side that some candidates have."""
    found: dict[str, dict[str, Any]] = {key: dict(rule) for key, rule in rules.items()}
    for repair in (each for candidate in chosen for each in candidate.repairs):
        found[repair.layer][repair.key] = repair.value
    return found
