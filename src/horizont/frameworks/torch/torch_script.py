"""Code that repeats what a layer of PyTorch, or a model up to a tensor, computes.

It imports nothing of Horizont, and runs wherever PyTorch does. The code is the body of a function
of ``value``, the input, and ``weights``, arrays by the names of `state_dict`. Its line
``import build`` stands for the import of the callable of the user.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import torch
from torch import nn

from .torch_layers import Entry, to_array
from .torch_tensors import tensor_in

Arrays = dict[str, np.ndarray[Any, Any]]

_LAYER = """\
import torch
from torch import nn

{layer}
layer.double().eval()
layer.load_state_dict({{name: torch.as_tensor(each) for name, each in weights.items()}})
with torch.no_grad():
    output = layer(torch.as_tensor(value))
return output{access}.numpy(){axes}
"""

_TENSOR = """\
import torch

import build

model = {model}
model.double().eval()
model.load_state_dict({{name: torch.as_tensor(each) for name, each in weights.items()}})
with torch.no_grad():
{lines}
"""

_INPUT = """\
    inputs = []
    layer = model.get_submodule({name!r})
    layer.register_forward_pre_hook(lambda _, values: inputs.append(values[0]))
    model(torch.as_tensor(value))
return inputs[0].numpy(){axes}"""

_RESULT = """\
    result = model(torch.as_tensor(value))
return result{access}.numpy()"""


def script_of_layer(
    entry: Entry, model: nn.Module, call: str, value: np.ndarray[Any, Any], examples: int
) -> tuple[str, Arrays]:
    """Return code and arrays that repeat a layer alone; no code if it is part of a module.

    Parameters
    ----------
    call
        The expression that builds the model.
    value
        The input of the layer in the canonical form.
    examples
        The size of the batch.
    """
    if entry.part or entry.role:
        return "", {}
    module = entry.module.eval()
    axes = entry.axes_of(value.shape, examples)
    tensor = torch.as_tensor(np.array(value.transpose(np.argsort(axes))))
    with torch.no_grad():
        output = module(tensor)
    access, found = tensor_in(output)
    text = f"nn.{module!r}"
    if _is_built_by(text, module, tensor, found):
        text = f"layer = {text}"
    else:
        name = next(name for name, each in model.named_modules() if each is module)
        text = f"import build\n\nlayer = {call}.get_submodule({name!r})"
    axes = entry.axes_of(tuple(found.shape), examples)
    code = _LAYER.format(layer=text, access=access, axes=_transposed(axes))
    return code, {"value": to_array(tensor), **_state(module)}


def script_of_tensor(
    entry: Entry | None, model: nn.Module, call: str, batch: Any
) -> tuple[str, Arrays]:
    """Return code and arrays that repeat a model up to the input of a layer, or the result."""
    arrays = {"value": to_array(batch), **_state(model)}
    model.eval()
    inputs: list[Any] = []
    with contextlib.ExitStack() as stack, torch.no_grad():
        if entry is not None:
            hook = entry.module.register_forward_pre_hook(lambda _, given: inputs.append(given))
            stack.callback(hook.remove)
        result = model(batch)
    if entry is None:
        lines = _RESULT.format(access=tensor_in(result)[0])
    else:
        name = next(name for name, each in model.named_modules() if each is entry.module)
        axes = entry.axes_of(tuple(inputs[0][0].shape), len(batch))
        lines = _INPUT.format(name=name, axes=_transposed(axes))
    return _TENSOR.format(model=call, lines=lines), arrays


def _is_built_by(text: str, module: nn.Module, value: Any, output: Any) -> bool:
    """Whether the representation of a module is code that builds the same one."""
    if not type(module).__module__.startswith("torch.nn.modules"):
        return False
    with contextlib.suppress(Exception):  # it is text for readers, which may be anything
        built = eval(text, {"nn": nn}).double().eval()
        built.load_state_dict(module.state_dict())
        with torch.no_grad():
            _, found = tensor_in(built(value))
        return bool(torch.equal(found, output))
    return False


def _state(module: nn.Module) -> Arrays:
    state = module.state_dict()
    return {f"weights|{name}": to_array(each) for name, each in state.items()}


def _transposed(axes: tuple[int, ...]) -> str:
    """Return the call that brings a tensor into the canonical order."""
    return "" if axes == tuple(range(len(axes))) else f".transpose{axes}"
