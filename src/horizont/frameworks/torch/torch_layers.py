"""Layers of PyTorch as a recorder sees them: kinds, weights in a canonical form, settings.

It imports nothing of Horizont, and runs wherever PyTorch does. The canonical form of most weights
is PyTorch's own. An LSTM or GRU has an entry for each layer and direction; the two biases of an
LSTM are one, their sum. Attention has a matrix for queries, keys, values and the output each. The
scale of a norm that multiplies by its weight plus one is that sum.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import nn

from .torch_parts import Division, Part, is_transposed_dense
from .torch_tensors import normalized_weights, power_iteration

Undo = Callable[[], object]

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_RECURRENT = (nn.LSTM, nn.GRU, nn.RNN)

#: Names of tensors in a canonical layer, by kind and name in PyTorch.
_NORM_ROLES = {
    "weight": "scale", "bias": "offset", "running_mean": "mean", "running_var": "variance",
}  # fmt: skip


def kind_of(module: nn.Module) -> str:
    """Return the kind of a layer; ``other`` for one that only its author knows."""
    kinds: list[tuple[Any, str]] = [
        (_CONVOLUTIONS, "convolution"), (_TRANSPOSED, "transposed convolution"),
        ((nn.Linear, Part), "dense"), (_BATCH_NORMS, "batch norm"), (nn.LayerNorm, "layer norm"),
        (nn.GroupNorm, "group norm"), (nn.Embedding, "embedding"), (nn.LSTM, "LSTM"),
        (nn.GRU, "GRU"), (nn.RNN, "RNN"), (nn.MultiheadAttention, "attention"),
    ]  # fmt: skip
    if is_transposed_dense(module):
        return "dense"
    if type(module).__name__.endswith("RMSNorm") and [*module._parameters] == ["weight"]:
        return "rms norm" if epsilon_name(module) else "other"
    return next((kind for types, kind in kinds if isinstance(module, types)), "other")


def epsilon_name(module: nn.Module) -> str:
    """Return the name of a norm's attribute for its epsilon; empty if it has none."""
    names = ("eps", "variance_epsilon", "epsilon")
    return next((name for name in names if hasattr(module, name)), "")


def _is_scaled_by_one_more(module: nn.Module) -> bool:
    """Whether a norm multiplies by its only weight plus one, as those of Gemma do."""
    weights = [each.detach() for each in module.parameters()]
    if len(weights) != 1 or weights[0].ndim != 1:
        return False
    with torch.no_grad(), contextlib.suppress(Exception):
        # A norm returns the same for both; the one that a model defines itself may be no norm.
        outputs = [module(torch.full_like(weights[0], each)[None]) for each in (2.0, 3.0)]
        return all(torch.allclose(each[0], weights[0] + 1, atol=1e-3) for each in outputs)
    return False


def to_array(tensor: Any) -> np.ndarray[Any, Any]:
    """Copy a tensor: an operation in place may overwrite it later."""
    return np.array(tensor.detach().cpu().numpy(), copy=True)


class Entry:
    """A layer that owns weights, or one layer and direction of a recurrent module.

    Of a module with layers inside, each tensor is an entry, whose `role` is the name there.
    """

    def __init__(
        self, name: str, module: nn.Module, part: str = "", is_last: bool = True, role: str = ""
    ) -> None:
        self.name = name
        self.role = role
        self.module = module
        self.kind = kind_of(module)
        self.part = part
        self.has_input = not part or part == "_l0"
        self.has_output = not part or is_last
        self.is_container = self.kind == "other" and bool(list(module.children()))
        #: Modules inside the layer, which are executed after what it computes itself.
        self.followers = list(module.children()) if self.kind.endswith("norm") else []
        #: Whether the time steps of inputs and outputs come before the examples.
        self.is_steps_first = getattr(module, "batch_first", True) is False
        #: The rows of a tensor that a role has, where it has not all of them.
        self.rows: dict[str, slice] = {}
        is_transposed = is_transposed_dense(module) or getattr(module, "is_transposed", False)
        self.transposed = {"kernel"} if is_transposed else set()
        self.tensors = self._tensors()
        #: What is added to a tensor before it is used.
        self.offset: dict[str, float] = {}
        if self.kind in ("rms norm", "other") and _is_scaled_by_one_more(module):
            self.offset = dict.fromkeys(self.tensors, 1.0)

    def _tensors(self) -> dict[str, tuple[Any, ...]]:
        """Return the tensors of each role; several are summed."""
        own: dict[str, Any] = {**self.module._parameters, **self.module._buffers}
        own |= normalized_weights(self.module)
        if isinstance(self.module, Part):
            own = self.module.owned
            self.rows = {"kernel": self.module.rows, "bias": self.module.rows}
        own = {key: value for key, value in own.items() if value is not None}
        if self.part:
            pairs = {
                "kernel": ("weight_ih",),
                "recurrent": ("weight_hh",),
                "bias": ("bias_ih",) if self.kind == "GRU" else ("bias_ih", "bias_hh"),
                "recurrent bias": ("bias_hh",) if self.kind == "GRU" else (),
            }
            found = {
                role: tuple(own[key + self.part] for key in keys if key + self.part in own)
                for role, keys in pairs.items()
            }
            return {role: tensors for role, tensors in found.items() if tensors}
        own.pop("num_batches_tracked", None)
        if self.kind == "attention":
            return self._of_attention(own)
        if self.kind.endswith("norm"):
            return {_NORM_ROLES[key]: (value,) for key, value in own.items()}
        if self.kind == "other":
            return {
                key: (value,)
                for key, value in own.items()
                if value.is_floating_point() and self.role in ("", key)
            }
        return {"kernel" if key == "weight" else key: (value,) for key, value in own.items()}

    def _of_attention(self, own: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        """Return the tensors of attention, whose matrices are parts of one if sizes are equal."""
        module: Any = self.module
        found: dict[str, tuple[Any, ...]] = {}
        for number, name in enumerate(("query", "key", "value")):
            rows = slice(number * module.embed_dim, (number + 1) * module.embed_dim)
            if "in_proj_weight" in own:
                found[f"{name} kernel"] = (own["in_proj_weight"],)
                self.rows[f"{name} kernel"] = rows
            else:
                found[f"{name} kernel"] = (own[f"{name[0]}_proj_weight"],)
            if "in_proj_bias" in own:
                found[f"{name} bias"] = (own["in_proj_bias"],)
                self.rows[f"{name} bias"] = rows
        found["output kernel"] = (module.out_proj.weight,)
        if module.out_proj.bias is not None:
            found["output bias"] = (module.out_proj.bias,)
        return found

    def _view(self, role: str, tensor: Any) -> Any:
        """Return what a role has of a tensor, in the canonical form."""
        tensor = tensor.T if role in self.transposed else tensor
        return tensor[self.rows.get(role, ...)]

    def read(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the weights by role."""
        return {
            role: reduce(np.add, [to_array(self._view(role, each)) for each in tensors])
            + self.offset.get(role, 0)
            for role, tensors in self.tensors.items()
        }

    def gradients(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the gradients by role; of a sum, the gradient is that of each part."""
        return {
            role: to_array(self._view(role, tensors[0].grad))
            for role, tensors in self.tensors.items()
            if tensors[0].grad is not None
        }

    def write(self, weights: dict[str, np.ndarray[Any, Any]]) -> None:
        """Set the weights of some roles; of a sum, the first part has all of it."""
        with torch.no_grad():
            for role, value in weights.items():
                first, *rest = self.tensors[role]
                self._view(role, first).copy_(torch.as_tensor(value - self.offset.get(role, 0)))
                for tensor in rest:
                    tensor.zero_()

    def axes_of(self, shape: tuple[int, ...], examples: int) -> tuple[int, ...]:
        """Return the axes of an input or output in the canonical order.

        The examples of a text are first, the features that a layer norm normalizes last.
        """
        is_text_first = self.is_steps_first or shape[:1] != (examples,)
        if len(shape) == 3 and is_text_first and shape[1] == examples:
            return (1, 0, 2)
        if len(shape) == 4 and self.kind == "layer norm":
            # Subclasses for images with channels first permute the axes by themselves.
            features = (self.module.normalized_shape[-1],)
            if shape[1:2] == features and type(self.module) is not nn.LayerNorm:
                return (0, 2, 3, 1)
        return tuple(range(len(shape)))

    def trainable(self) -> list[str]:
        """List the roles that training changes."""
        return [role for role, tensors in self.tensors.items() if tensors[0].requires_grad]

    def settings(self, shapes: tuple[Any, Any]) -> dict[str, Any]:
        """Return the settings that another implementation may have chosen otherwise.

        Parameters
        ----------
        shapes
            Those of an input and of its output, None if they are not known. The model is in the
            mode of training.
        """
        module: Any = self.module
        found: dict[str, Any] = {}
        if self.kind == "convolution":
            found = {
                "padding": _padding(module),
                "stride": list(module.stride),
                "dilation": list(module.dilation),
                "groups": module.groups,
                "padding mode": module.padding_mode,
            }
            if _pads_otherwise(module, shapes):
                del found["padding"]
        elif self.kind == "transposed convolution":
            padding, more = module.padding, module.output_padding
            found = {
                "cropping": [[p, p - q] for p, q in zip(padding, more, strict=True)],
                "stride": list(module.stride),
                "dilation": list(module.dilation),
            }
        elif self.kind.endswith("norm"):
            epsilon = getattr(module, epsilon_name(module))
            # Without one, that of PyTorch has the epsilon of the floating-point type.
            found["epsilon"] = torch.finfo(module.weight.dtype).eps if epsilon is None else epsilon
            if self.kind == "batch norm":
                found["momentum"] = module.momentum
                found["variance correction"] = 1
                found["statistics"] = "of the batch" if module.training else "running"
                found["parts"] = 1
            if self.kind == "group norm":
                found["groups"] = module.num_groups
        elif self.kind == "embedding":
            found["padding index"] = module.padding_idx
        elif self.part and self.kind == "LSTM":
            found |= {"biases": 2 if module.bias else 0, "gates": "sigmoid", "activation": "tanh"}
        elif self.kind == "attention":
            found["heads"] = module.num_heads
            found["scale"] = module.head_dim**-0.5
        elif self.part and self.kind == "RNN":
            found["activation"] = module.nonlinearity
        elif self.part and self.kind == "GRU":
            found |= {"reset gate": "after the product", "gates": "sigmoid", "activation": "tanh"}
        found |= power_iteration(module)
        found["frozen"] = sorted(set(self.tensors) - set(self.trainable()) - {"mean", "variance"})
        return found


def _pads_otherwise(module: Any, shapes: tuple[Any, Any]) -> bool:
    """Whether the output of a convolution shows that its class pads the input by itself."""
    before, after = shapes
    if before is None or after is None or len(before) != len(module.kernel_size) + 2:
        return False
    sizes = [
        (size + sum(zeros) - dilation * (kernel - 1) - 1) // stride + 1
        for size, zeros, dilation, kernel, stride in zip(
            before[2:], _padding(module), module.dilation, module.kernel_size, module.stride,
            strict=True,
        )
    ]  # fmt: skip
    return sizes != list(after[2:])


def _padding(module: Any) -> list[list[int]]:
    """Return the zeros before and after each axis of space."""
    if module.padding == "valid":
        return [[0, 0] for _ in module.kernel_size]
    if module.padding == "same":
        totals = [d * (k - 1) for d, k in zip(module.dilation, module.kernel_size, strict=False)]
        return [[total // 2, total - total // 2] for total in totals]
    return [[size, size] for size in module.padding]


def entries_of(model: nn.Module, divisions: Sequence[Division] = ()) -> list[Entry]:
    """List the layers with tensors of their own, in the order of their definition.

    Those that are divided are listed as their parts.
    """
    found = [Entry(name, part) for each in divisions for name, part in each.parts.items()]
    inside = {
        id(each)
        for module in model.modules()
        if isinstance(module, nn.MultiheadAttention)
        for each in module.children()
    }
    inside |= {id(each.module) for each in divisions}
    for module in model.modules():
        if normalized_weights(module):
            inside |= {id(each) for each in module.parametrizations.modules()}
    for name, module in model.named_modules():
        if id(module) in inside:
            continue
        if isinstance(module, _RECURRENT):
            ways = ("", "_reverse") if module.bidirectional else ("",)
            for number in range(module.num_layers):
                for way in ways:
                    part = f"_l{number}{way}"
                    is_last = number == module.num_layers - 1
                    found.append(Entry(f"{name}{part}", module, part, is_last))
            continue
        parameters = [key for key, each in module._parameters.items() if each is not None]
        if kind_of(module) != "other":
            found.append(Entry(name or "model", module))
        elif list(module.children()):
            start = f"{name}." if name else ""
            found += [Entry(f"{start}{key}", module, role=key) for key in parameters]
        elif parameters:  # buffers alone are constants
            found.append(Entry(name or "model", module))
    return [entry for entry in found if entry.tensors]


def read_weights(entries: list[Entry]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the weights of all layers by their names and roles."""
    return {
        f"{entry.name}|{role}": value for entry in entries for role, value in entry.read().items()
    }


def write_weights(entries: list[Entry], weights: dict[str, np.ndarray[Any, Any]]) -> None:
    """Set the weights that are given."""
    for entry in entries:
        names = {role: f"{entry.name}|{role}" for role in entry.tensors}
        entry.write({role: weights[name] for role, name in names.items() if name in weights})


def tied_layers(entries: list[Entry]) -> dict[str, list[str]]:
    """Return for each layer the names of those that share a tensor with it."""
    owners: dict[tuple[int, str], set[str]] = {}
    for entry in entries:
        for role, tensors in entry.tensors.items():
            for tensor in tensors:
                part = str(entry.rows.get(role))
                owners.setdefault((id(tensor), part), set()).add(entry.name)
    found: dict[str, set[str]] = {entry.name: set() for entry in entries}
    for names in owners.values():
        for name in names:
            found[name] |= names - {name}
    return {name: sorted(names) for name, names in found.items()}
