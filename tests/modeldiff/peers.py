"""What others find of the planted faults: ``python -m tests.modeldiff.peers``, after `make pairs`.

The usual checks compare a model with its faulty copy, with the same weights. PaDiff compares models
of PaddlePaddle and PyTorch, so the faults are those of networks that both have. It gets its default
tolerances, and larger ones for every element; a model without a fault shows which are usable.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tests.modeldiff.environments import answers
from tests.modeldiff.test_planted_faults import (
    CASES,
    MODELS,
    OF_NETWORKS,
    FirstLayers,
    find_first_layers,
)

NETWORKS = ("resnet18", "mobilenet_v2")
OPTIONS: list[dict[str, Any]] = [
    {},
    *({"atol": each, "rtol": each, "compare_mode": "strict"} for each in (1e-5, 1e-4, 1e-3, 1e-2)),
]


def right_ones(layers: Sequence[str], truth: Collection[str]) -> str:
    """Return how many first layers are right, of those of faults that change an output."""
    right = sum(one == other != "" for one, other in zip(layers, truth, strict=True))
    return f"{right} of {sum(map(bool, truth))}"


def usual_checks(truth: FirstLayers) -> None:
    """Print how many faults each usual check finds, and how many first layers are right."""
    healthy = [(network, "", 0.5) for network in OF_NETWORKS]
    every = answers("pytorch", MODELS.with_name("usual_checks.py"), [*healthy, *CASES])
    alarms, found = every[: len(healthy)], every[len(healthy) :]
    for check in ("result", "layers", "gradients", "transformers"):
        asked = [each[check] for each in found if each[check] is not None]
        networks = [name for name, each in zip(OF_NETWORKS, alarms, strict=True) if each[check]]
        print(
            f"{check}: {sum(asked)} of {len(asked)} faults found, alarms without a fault: "
            f"{', '.join(networks) or 'none'}"
        )
    layers = [each["first layer"] for each in found]
    print(f"{right_ones(layers, truth.values())} first layers right")
    missed = [
        case[:2] for case, each in zip(CASES, found, strict=True)
        if not any(value for name, value in each.items() if name != "first layer")
    ]  # fmt: skip
    print(f"found by none of them: {missed}", flush=True)


def padiff(truth: FirstLayers) -> None:
    """Print what PaDiff finds with each of its options."""
    program = MODELS.with_name("padiff_cases.py")
    for network in NETWORKS:
        cases = [case for case in CASES if case[0] == network]
        firsts = [truth[case] for case in cases]
        every = [(network, "", 0.5), *cases]
        for options in OPTIONS:
            healthy, *found = answers("padiff", program, every, options)
            layers = [layer for is_found, layer in found]
            print(
                f"{network}, {options or 'defaults'}: {'an' if healthy[0] else 'no'} alarm without "
                f"a fault; {sum(each[0] for each in found)} of {len(cases)} faults found, "
                f"{right_ones(layers, firsts)} first layers right",
                flush=True,
            )


if __name__ == "__main__":
    first_layers = find_first_layers()
    usual_checks(first_layers)
    padiff(first_layers)
