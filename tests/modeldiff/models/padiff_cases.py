"""What PaDiff finds of planted faults: ``padiff_cases.py CASES OPTIONS``, both in JSON.

It compares PaddlePaddle's port of a network with a faulty one of PyTorch, in one training step, and
prints for each case whether it finds a difference, and in which layer of PyTorch.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from typing import Any

import numpy as np
import paddle
import padiff
import torch
from padiff.trainer import Checker
from planted import build, planted


def compared(case: tuple[str, str, float], options: dict[str, Any]) -> tuple[bool, str]:
    """Return whether a difference is found, and the first layer; no fault is an empty name."""
    network, fault, at = case
    torch.manual_seed(0)
    model = planted(network, fault, at) if fault else build(network)
    kind = type(model)

    def call(self: Any, x: Any) -> Any:  # PaDiff names its arguments, hooks of the model do not
        return kind.__call__(self, x)

    model.__class__ = type(kind.__name__, (kind,), {"__call__": call})
    port = getattr(paddle.vision.models, network)()
    batch = np.random.default_rng(0).normal(0, 3, (2, 3, 64, 64)).astype("float32")
    names = {id(module): name for name, module in model.named_modules()}
    found: list[str] = []

    def print_info(_: Any, item: Any, *__: Any, **___: Any) -> None:
        found.append(names.get(id(item.net), ""))

    Checker.print_info = print_info
    inputs = {"x": paddle.to_tensor(batch)}, {"x": torch.tensor(batch)}
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        is_same = padiff.auto_diff(port, model, inputs, options=dict(options))
    return not is_same, found[0] if found else ""


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)  # to which PaDiff writes its logs
        every, chosen = json.loads(sys.argv[1]), json.loads(sys.argv[2])
        print(json.dumps([compared(tuple(case), chosen) for case in every]))
