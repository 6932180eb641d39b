"""Layers of Gluon as a recorder sees them: kinds, weights in a canonical form, settings.

It imports nothing of Horizont, and runs wherever MXNet does. MXNet's layout of weights is the
canonical one, and so is its order of gates. An LSTM or GRU has an entry for each layer and
direction; its two biases are one, their sum, but in a GRU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mxnet as mx
import numpy as np

nn, rnn = mx.gluon.nn, mx.gluon.rnn

_KINDS: tuple[tuple[Any, str], ...] = (
    ((nn.Conv1D, nn.Conv2D, nn.Conv3D), "convolution"),
    ((nn.Conv1DTranspose, nn.Conv2DTranspose, nn.Conv3DTranspose), "transposed convolution"),
    (nn.Dense, "dense"), (nn.BatchNorm, "batch norm"), (nn.LayerNorm, "layer norm"),
    (nn.GroupNorm, "group norm"), (nn.Embedding, "embedding"), (rnn.LSTM, "LSTM"),
    (rnn.GRU, "GRU"), (rnn.RNN, "RNN"),
)  # fmt: skip

_RECURRENT = (rnn.LSTM, rnn.GRU, rnn.RNN)

_ROLES = {
    "weight": "kernel", "gamma": "scale", "beta": "offset", "running_mean": "mean",
    "running_var": "variance",
}  # fmt: skip

#: Tensors of one layer of a recurrent block, by role; several are summed.
_GATES = {"kernel": ("i2h_weight",), "recurrent": ("h2h_weight",)}
_BIASES = {"bias": ("i2h_bias", "h2h_bias")}
_SEPARATE_BIASES = {"bias": ("i2h_bias",), "recurrent bias": ("h2h_bias",)}


def kind_of(block: Any) -> str:
    """Return the kind of a layer; ``other`` for one that only its author knows."""
    return next((kind for types, kind in _KINDS if isinstance(block, types)), "other")


class Entry:
    """A block that owns weights, or one layer and direction of a recurrent block."""

    def __init__(self, name: str, block: Any, part: str = "", is_last: bool = True) -> None:
        self.name, self.block, self.part = name, block, part
        self.kind = kind_of(block)
        is_one_way = getattr(block, "_dir", 1) == 1
        self.has_input = not part or (part == "l0" and is_one_way)
        self.has_output = not part or (is_last and is_one_way)
        self.is_container = self.kind == "other" and bool(block._children)
        self.parameters = self._parameters()

    def _parameters(self) -> dict[str, tuple[Any, ...]]:
        """Return the parameters of each role."""
        own = self.block._reg_params
        if self.part:
            roles = {**_GATES, **(_SEPARATE_BIASES if self.kind == "GRU" else _BIASES)}
            return {
                role: tuple(own[f"{self.part}_{each}"] for each in names)
                for role, names in roles.items()
            }
        unused = {"gamma"} if self._is_fixed("fix_gamma") else set()
        if self.kind.endswith("norm") and "beta" in own and own["beta"].grad_req == "null":
            unused.add("beta")
        name_of = {} if self.kind == "other" else _ROLES
        return {
            name_of.get(name, name): (parameter,)
            for name, parameter in own.items()
            if name not in unused
        }

    def _is_fixed(self, key: str) -> bool:
        return bool(getattr(self.block, "_kwargs", {}).get(key))

    def read(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the weights by role."""
        return {
            role: sum(each.data().asnumpy() for each in parameters)
            for role, parameters in self.parameters.items()
        }

    def gradients(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the gradients by role; of a sum, the gradient is that of each part."""
        return {
            role: first.grad().asnumpy()
            for role, (first, *_) in self.parameters.items()
            if first.grad_req != "null"
        }

    def write(self, weights: dict[str, np.ndarray[Any, Any]]) -> None:
        """Set the weights of some roles; of a sum, the first part has all of it."""
        for role, value in weights.items():
            first, *rest = self.parameters[role]
            first.set_data(mx.nd.array(value, dtype=first.dtype))
            for parameter in rest:
                parameter.set_data(mx.nd.zeros(parameter.shape, dtype=parameter.dtype))

    def settings(self) -> dict[str, Any]:
        """Return the settings that another implementation may have chosen otherwise."""
        block = self.block
        options = getattr(block, "_kwargs", {})
        found: dict[str, Any] = {}
        if self.kind == "convolution":
            found = {
                "padding": [[size, size] for size in options["pad"]],
                "stride": list(options["stride"]),
                "dilation": list(options["dilate"]),
                "groups": options["num_group"],
                "padding mode": "zeros",
            }
        elif self.kind.endswith("norm"):
            found["epsilon"] = options["eps"]
            if self.kind == "batch norm":
                # MXNet rounds it to single precision.
                found["momentum"] = 1.0 - float(np.float32(options["momentum"]))
                found["variance correction"] = 0
                is_running = options.get("use_global_stats")
                found["statistics"] = "running" if is_running else "of the batch"
            if self.kind == "group norm":
                found["groups"] = block._num_groups
        elif self.kind == "embedding":
            found["padding index"] = None
        elif self.kind == "LSTM":
            found["biases"] = 2
        elif self.kind == "RNN":
            found["activation"] = block._mode.removeprefix("rnn_")
        found["frozen"] = sorted(
            role
            for role, (first, *_) in self.parameters.items()
            if first.grad_req == "null" and role not in ("mean", "variance")
        )
        return found


def named_blocks(block: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a block and all blocks in it, named as in a file of parameters."""
    yield name, block
    for child_name, child in block._children.items():
        yield from named_blocks(child, f"{name}.{child_name}" if name else child_name)


def entries_of(net: Any) -> list[Entry]:
    """List the layers with parameters of their own, in the order of their definition."""
    found: list[Entry] = []
    for name, block in named_blocks(net):
        if isinstance(block, _RECURRENT):
            ways = ("l", "r") if block._dir == 2 else ("l",)
            for number in range(block._num_layers):
                is_last = number == block._num_layers - 1
                parts = [f"{way}{number}" for way in ways]
                found += [Entry(f"{name}_{part}", block, part, is_last) for part in parts]
        elif block._reg_params:
            found.append(Entry(name or "model", block))
    return [entry for entry in found if entry.parameters]


def read_weights(entries: list[Entry]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the weights of all layers by their names and roles."""
    return {
        f"{entry.name}|{role}": value for entry in entries for role, value in entry.read().items()
    }


def write_weights(entries: list[Entry], weights: dict[str, np.ndarray[Any, Any]]) -> None:
    """Set the weights that are given."""
    for entry in entries:
        names = {role: f"{entry.name}|{role}" for role in entry.parameters}
        entry.write({role: weights[name] for role, name in names.items() if name in weights})
