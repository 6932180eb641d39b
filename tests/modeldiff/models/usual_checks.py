"""What checks of ports usually find of planted faults: ``usual_checks.py CASES``, in JSON.

Both models have the same initial weights, the batch and float32. For each case it prints whether
`torch.testing.assert_close` fails for the result, for an output of a layer, and for a gradient of a
training step, each with its default tolerances; the first layer for which it does; and whether the
test of transformers between frameworks fails: results, states and attention of all layers in
evaluation differ by more than 1e-5. It is null for other models.

Without a fault, whose name is empty then, the other model computes in float64: a check that fails
mistakes the rounding of float32 for a fault.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import torch
from first_differences import outputs
from planted import build, planted

#: The largest absolute difference that tests of transformers between frameworks allow.
_ALLOWED = 1e-5


def _differs(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is not other
    try:
        torch.testing.assert_close(one, other, check_dtype=False)
    except AssertionError:
        return True
    return False


def _tensors(value: Any) -> Iterator[Any]:
    """List the tensors of a result, which may have states and attention of each layer."""
    if isinstance(value, torch.Tensor):
        yield value
    else:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _tensors(each)


def _gradients(model: Any, batch: Any) -> list[Any]:
    """Return the gradients of a training step, with random numbers of the same seed."""
    torch.manual_seed(1)
    result = next(_tensors(model.train()(batch)))
    torch.manual_seed(2)
    (result * torch.randn(result.shape)).mean().backward()
    return [each.grad for each in model.parameters()]


def found(network: str, fault: str, at: float) -> dict[str, Any]:
    """Return what each check finds of one fault."""
    torch.manual_seed(0)
    right = build(network).eval()
    wrong = (planted(network, fault, at) if fault else build(network).double()).eval()
    wrong.load_state_dict(right.state_dict())
    is_text = network == "bert"
    batch = torch.randint(1000, (2, 16)) if is_text else torch.randn(2, 3, 64, 64)
    if is_text:
        for model in (right, wrong):
            model.config._attn_implementation = "eager"  # others return no attention
            model.config.output_hidden_states = model.config.output_attentions = True
    other = batch if fault or is_text else batch.double()
    sides = [(right, batch), (wrong, other)]
    with torch.no_grad():
        every = [[*_tensors(model(given))] for model, given in sides]
    before, after = (outputs(*side) for side in sides)
    layers = [name for name in before if _differs(before[name], after[name])]
    gradients = zip(*(_gradients(*side) for side in sides), strict=True)
    apart = [
        float((one - other).abs().max()) if one.shape == other.shape else float("inf")
        for one, other in zip(*every, strict=True)
    ]
    return {
        "result": _differs(every[0][0], every[1][0]),
        "layers": bool(layers),
        "first layer": layers[0] if layers else "",
        "gradients": any(_differs(one, other) for one, other in gradients),
        "transformers": max(apart) > _ALLOWED if is_text else None,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps([found(*case) for case in json.loads(sys.argv[1])]))
