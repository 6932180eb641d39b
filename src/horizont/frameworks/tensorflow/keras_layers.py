"""Layers of Keras as a recorder sees them: kinds, weights in a canonical form, settings.

It imports nothing of Horizont, and runs wherever Keras does. The canonical form is that of the
layouts ``OIHW`` for kernels and ``NCHW`` for images; gates of a GRU are in the order reset, update,
new. The scale of a norm that multiplies by its variable plus one is that sum.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from .keras_parts import Separable
from .tensor_layouts import (
    Array,
    Transform,
    channels_first,
    channels_last,
    depthwise,
    permuted,
    same_padding,
)

_KINDS = {
    "Conv1D": "convolution", "Conv2D": "convolution", "Conv3D": "convolution",
    "DepthwiseConv1D": "convolution", "DepthwiseConv2D": "convolution",
    "Conv1DTranspose": "transposed convolution", "Conv2DTranspose": "transposed convolution",
    "Conv3DTranspose": "transposed convolution", "Dense": "dense",
    "BatchNormalization": "batch norm", "LayerNormalization": "layer norm",
    "GroupNormalization": "group norm", "RMSNormalization": "rms norm", "Embedding": "embedding",
    "LSTM": "LSTM", "GRU": "GRU", "SimpleRNN": "RNN", "MultiHeadAttention": "attention",
}  # fmt: skip

_ROLES = {
    "gamma": "scale", "beta": "offset", "moving_mean": "mean", "moving_variance": "variance",
    "embeddings": "kernel", "depthwise_kernel": "kernel", "pointwise_kernel": "kernel",
    "recurrent_kernel": "recurrent",
}  # fmt: skip


def kind_of(layer: Any) -> str:
    """Return the kind of a layer; ``other`` for one that only its author knows."""
    for cls in type(layer).__mro__:
        if cls.__name__ in _KINDS and cls.__module__.startswith("keras"):
            return _KINDS[cls.__name__]
    return "other"


def _swap_gates(value: Array) -> Array:
    """Reorder the first two of three gates on the last axis."""
    update, reset, new = np.split(value, 3, axis=-1)
    return np.concatenate([reset, update, new], axis=-1)


def _attention(role: str, shape: tuple[int, ...]) -> tuple[Transform, Transform]:
    """Return how to convert a weight of attention, whose heads have an axis, and back."""
    if role == "output kernel":
        rows = math.prod(shape[:-1])
        return (lambda x: x.reshape(rows, -1).T), (lambda x: x.T.reshape(shape))
    if role.endswith("kernel"):
        return (lambda x: x.reshape(shape[0], -1).T), (lambda x: x.T.reshape(shape))
    return (lambda x: x.reshape(-1)), (lambda x: x.reshape(shape))


def transforms(
    kind: str, role: str, value: Array, is_depthwise: bool
) -> tuple[Transform, Transform]:
    """Return how to convert a weight to the canonical form, and back."""
    if is_depthwise and role == "kernel":
        return depthwise(value.shape)
    if kind == "attention":
        return _attention(role, value.shape)
    if kind in ("convolution", "transposed convolution") and role == "kernel":
        # Both have the axis of `O` last; PyTorch has that of the input first if transposed.
        return permuted((value.ndim - 1, value.ndim - 2, *range(value.ndim - 2)))
    if kind in ("dense", "LSTM", "RNN") and value.ndim == 2:
        return (lambda x: x.T), (lambda x: x.T)
    if kind == "GRU":
        swap = _swap_gates
        return (lambda x: swap(x).T, lambda x: swap(x.T)) if value.ndim == 2 else (swap, swap)
    return (lambda x: x), (lambda x: x)


class Entry:
    """A layer that owns weights, with its weights in the canonical form.

    A matrix of attention, if it is a layer of its own, is called by its `part`. If only one tensor
    of a layer is an entry, it is `tensor`.
    """

    def __init__(self, name: str, layer: Any, part: str = "", tensor: str = "") -> None:
        self.name = f"{name}[{part or tensor}]" if part or tensor else name
        self.layer = layer
        self.whole, self.part = name, part
        self.kind = "dense" if part else kind_of(layer)
        self.is_container = bool(tensor) or (self.kind == "other" and bool(_children(layer)))
        owner = layer.cell if self.kind in ("LSTM", "GRU", "RNN") else layer
        self.variables: dict[str, Any] = {}
        own = [*owner._trainable_variables, *owner._non_trainable_variables]
        if self.kind == "attention":
            own = owner.weights
        for variable in own:
            short = variable.name.rpartition("/")[2]
            role = short if self.kind == "other" else _ROLES.get(short, short)
            if self.kind == "other" and role in ("mean", "variance"):
                role = f"input {role}"  # no running statistics
            if self.kind == "attention":
                role = f"{variable.path.split('/')[-2].removeprefix('attention_')} {short}"
            if "float" in keras.backend.standardize_dtype(variable.dtype):
                self.variables[role] = variable
        if tensor:
            self.variables = {tensor: self.variables[tensor]}
        #: By what the update of a variable is multiplied, as if it were several equal ones.
        self.equal_variables: dict[str, int] = {}
        #: What is added to a variable before it is used.
        self.offset: dict[str, float] = {}
        if self.kind == "other" and _is_scaled_by_one_more(layer, [*self.variables.values()]):
            self.offset = dict.fromkeys(self.variables, 1.0)
        self.is_depthwise = "Depthwise" in type(layer).__name__
        self.paired_bias = self.kind == "GRU" and getattr(layer, "reset_after", False)

    @property
    def is_channels_last(self) -> bool:
        """Whether the canonical layout has the channels of its input elsewhere."""
        if self.kind == "batch norm":
            return self.layer.axis in (-1, len(self.layer.input_spec.axes or {}) + 2)
        if self.kind == "group norm":
            return self.layer.axis in (-1, self.layer.input_spec.ndim - 1)
        return "convolution" in self.kind and self.layer.data_format == "channels_last"

    def _transforms(self, role: str, value: Array) -> tuple[Transform, Transform]:
        if self.part:
            return _attention(f"{self.part} {role}", value.shape)
        return transforms(self.kind, role, value, self.is_depthwise)

    def joined_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape without the axis of heads that matrices of attention have."""
        return (*shape[:-2], -1) if self.part and len(shape) > 3 else shape

    def to_canonical(self, value: Array) -> Array:
        """Return an input or output with channels first, and heads side by side on one axis."""
        value = value.reshape(self.joined_shape(value.shape))
        return channels_first(value) if self.is_channels_last else value

    def to_own(self, value: Array, shape: tuple[int, ...]) -> Array:
        """Return an input or output in the layout of the layer, which has a shape."""
        if self.part and value.size == math.prod(shape):
            return value.reshape(shape)
        return channels_last(value) if self.is_channels_last else value

    def canonical(self, role: str, value: Array) -> dict[str, Array]:
        """Return a weight, or its gradient, in the canonical form."""
        forward, _ = self._transforms(role, value)
        if role == "bias" and self.paired_bias:
            first, second = _swap_gates(value)
            return {"bias": first, "recurrent bias": second}
        return {role: forward(value)}

    def read(self) -> dict[str, Array]:
        """Return the weights by role."""
        found: dict[str, Array] = {}
        for role, variable in self.variables.items():
            value = np.array(keras.ops.convert_to_numpy(variable.value))
            value = value + self.offset.get(role, 0)
            found.update(self.canonical(role, value))
        return found

    def write(self, weights: dict[str, Array]) -> None:
        """Set the weights of some roles."""
        if self.paired_bias and "bias" in weights:
            both = [weights["bias"], weights.get("recurrent bias", 0 * weights["bias"])]
            weights = {**weights, "bias": _swap_gates(np.stack(both))}
        for role, value in weights.items():
            if role in self.variables:
                variable = self.variables[role]
                _, back = self._transforms(role, np.empty(variable.shape))
                is_stacked = self.paired_bias and role == "bias"
                own = value if is_stacked else back(value)
                variable.assign(own - self.offset.get(role, 0))
        if hasattr(self.layer, "adapt_mean"):  # which computes with copies of its weights
            self.layer.finalize_state()

    def settings(self, shape: tuple[int, ...] | None) -> dict[str, Any]:
        """Return the settings that another implementation may have chosen otherwise."""
        layer = self.layer
        found: dict[str, Any] = {}
        if self.kind == "convolution":
            found = {
                "padding": self._padding(shape),
                "stride": list(layer.strides),
                "dilation": list(layer.dilation_rate),
                "groups": self._groups(),
                "padding mode": "zeros",
            }
        elif self.kind == "transposed convolution":
            found = {"stride": list(layer.strides), "dilation": list(layer.dilation_rate)}
            if layer.output_padding is None:
                found["cropping"] = self._cropping()
        elif self.kind.endswith("norm"):
            found["epsilon"] = layer.epsilon
            if self.kind == "batch norm":
                found["momentum"] = 1.0 - layer.momentum
                found["variance correction"] = 0
                found["statistics"] = "of the batch" if layer.trainable else "running"
                found["statistics in evaluation"] = "running"
            if self.kind == "group norm":
                found["groups"] = layer.groups
        elif self.kind == "embedding":
            found["padding index"] = None
        elif self.kind in ("LSTM", "GRU", "RNN"):
            found = self._of_recurrent()
        elif self.kind == "attention":
            found = {"heads": layer.num_heads, "first axis": "examples"}
            # A number that is made a tensor has single precision in between.
            scale = keras.ops.cast(layer._inverse_sqrt_key_dim, layer.compute_dtype)
            found["scale"] = float(keras.ops.convert_to_numpy(scale))
        found["tied"] = []  # layers of Keras have variables of their own
        found["frozen"] = sorted(
            role
            for role, variable in self.variables.items()
            if not variable.trainable and role not in ("mean", "variance")
        )
        return found

    def _of_recurrent(self) -> dict[str, Any]:
        layer = self.layer
        found = {"activation": layer.activation.__name__, "first axis": "examples"}
        if self.kind != "RNN":
            found["gates"] = layer.recurrent_activation.__name__
        if self.kind == "LSTM":
            found["biases"] = 1 if layer.use_bias else 0
        if self.kind == "GRU":
            found["reset gate"] = f"{'after' if self.paired_bias else 'before'} the product"
        return found

    def _groups(self) -> int:
        if self.is_depthwise:
            return int(self.variables["kernel"].shape[-2])
        return int(self.layer.groups)

    def _cropping(self) -> list[list[int]]:
        """Return the rows that are cut before and after each axis of the whole output."""
        layer = self.layer
        cut = []
        for kernel, stride, dilation in zip(
            layer.kernel_size, layer.strides, layer.dilation_rate, strict=True
        ):
            surplus = (kernel - 1) * dilation + 1 - stride
            before = max(surplus, 0) // 2 if layer.padding == "same" else 0
            cut.append([before, surplus - before if layer.padding == "same" else min(surplus, 0)])
        return cut

    def _padding(self, shape: tuple[int, ...] | None) -> list[list[int]]:
        """Return the zeros before and after each axis of space."""
        layer = self.layer
        rank = len(layer.kernel_size)
        if layer.padding == "causal":
            return [[layer.dilation_rate[0] * (layer.kernel_size[0] - 1), 0]]
        if layer.padding != "same" or shape is None:
            return [[0, 0]] * rank
        sizes = shape[1:-1] if self.is_channels_last else shape[2:]
        return same_padding(sizes, layer.kernel_size, layer.strides, layer.dilation_rate)


def _is_scaled_by_one_more(layer: Any, variables: Sequence[Any]) -> bool:
    """Whether a norm multiplies by its only variable plus one, as those of Gemma do."""
    if len(variables) != 1 or len(variables[0].shape) != 1:
        return False
    goal = keras.ops.convert_to_numpy(variables[0].value) + 1
    with contextlib.suppress(Exception):
        # A norm returns the same for both; the one that a model defines itself may be no norm.
        outputs = [layer.call(keras.ops.full((1, len(goal)), each)) for each in (2.0, 3.0)]
        found = [keras.ops.convert_to_numpy(each) for each in outputs]
        return all(each.shape == (1, *goal.shape) for each in found) and np.allclose(
            np.concatenate(found), goal, atol=1e-3
        )
    return False


def _children(layer: Any) -> list[Any]:
    """List the layers inside a layer."""
    return [each for each in layer._flatten_layers(include_self=False) if each is not layer]


def entries_of(
    model: Any, divisions: dict[str, Any], separable: Sequence[Separable] = ()
) -> list[Entry]:
    """List the layers with variables of their own, in the order of their definition.

    Attention that is divided is listed as its matrices, a layer that only its author knows as its
    tensors, and a separable convolution as its two.
    """
    convolutions = {id(each.layer): each.parts() for each in separable}
    found: list[Entry] = []
    inside: set[int] = set()
    names: dict[str, int] = {}
    for layer in model._flatten_layers():
        if id(layer) in inside or isinstance(layer, keras.layers.Dropout):
            continue
        if kind_of(layer) != "other":
            inside.update(id(each) for each in _children(layer))
        name = getattr(layer, "path", None) or layer.name
        names[name] = names.get(name, 0) + 1
        name = name if names[name] == 1 else f"{name}#{names[name]}"
        parts = divisions.get(name, ())
        if kind_of(layer) == "other":
            entries = [Entry(name, layer, tensor=each) for each in parts]
        else:
            entries = [Entry(name, getattr(layer, f"_{part}_dense"), part) for part in parts]
        for part, convolution in convolutions.get(id(layer), {}).items():
            entries.append(Entry(f"{name}[{part}]", convolution))
        found += [each for each in entries or [Entry(name, layer)] if each.variables]
    return found


def read_weights(entries: list[Entry]) -> dict[str, Array]:
    """Return the weights of all layers by their names and roles."""
    return {
        f"{entry.name}|{role}": value for entry in entries for role, value in entry.read().items()
    }


def write_weights(entries: list[Entry], weights: dict[str, Array]) -> None:
    """Set the weights that are given."""
    for entry in entries:
        start = f"{entry.name}|"
        entry.write({k[len(start) :]: v for k, v in weights.items() if k.startswith(start)})


def side_by_side(entry: Entry, value: Any) -> Any:
    """Return an input or output of a matrix of attention without an axis of heads."""
    return keras.ops.reshape(value, entry.joined_shape(value.shape)) if entry.part else value


def own_axis(change: dict[str, Any], entry: Entry) -> dict[str, Any]:
    """Return a change of an input with the axis of channels of this layout."""
    is_moved = entry.is_channels_last and change.get("axis") == 1
    return {**change, "axis": -1} if is_moved else change
