"""Where planted faults show first, by hooks of PyTorch alone: ``first_differences.py CASES``.

``CASES`` is a list of network, fault and place in JSON. For each it prints the name of the first
layer with weights whose output changes; empty if no output does in evaluation.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from planted import build, planted
from torch import nn


def outputs(model: nn.Module, batch: Any) -> dict[str, Any]:
    """Return the outputs of layers with weights, in the order of execution."""
    found: dict[str, Any] = {}
    hooks = []
    for name, module in model.named_modules():
        if module._parameters and not list(module.children()):

            def hook(_: Any, __: Any, output: Any, name: str = name) -> None:
                found.setdefault(name, output.detach().clone())

            hooks.append(module.register_forward_hook(hook))
    with torch.no_grad():
        model(batch)
    for each in hooks:
        each.remove()
    return found


def first_difference(network: str, fault: str, at: float) -> str:
    torch.manual_seed(0)
    right, wrong = build(network).double().eval(), planted(network, fault, at).double().eval()
    wrong.load_state_dict(right.state_dict())
    batch = torch.randint(1000, (2, 16)) if network == "bert" else 3 * torch.randn(2, 3, 64, 64)
    batch = batch if network == "bert" else batch.double()
    before, after = outputs(right, batch), outputs(wrong, batch)
    for name, one in before.items():
        other = after[name]
        if one.shape != other.shape or (one - other).norm() > 1e-10 * one.norm():
            return name
    return ""


if __name__ == "__main__":
    print(json.dumps([first_difference(*case) for case in json.loads(sys.argv[1])]))
