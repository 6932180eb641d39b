"""Code that repeats what a layer of Keras, or a model up to a tensor, computes.

It imports nothing of Horizont, and runs wherever Keras does. The code is the body of a function of
``value``, the input, and ``weights``, arrays by their number in `get_weights`. Its line
``import build`` stands for the import of the callable of the user.
"""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import keras
import numpy as np
from keras import ops

from .keras_changes import wrap_call
from .keras_layers import Entry
from .keras_tensors import tensor_in

Arrays = dict[str, Any]

_START = """\
import os

os.environ["KERAS_BACKEND"] = "{backend}"
import keras
import numpy as np

keras.config.set_floatx("float64")
keras.config.set_dtype_policy("float64")
"""

_LAYER = """
{layer}
{activation}layer(value)  # which makes its weights
layer.set_weights([weights[str(number)] for number in range(len(weights))])
output = layer(value, training=False)
return {output}
"""

_TENSOR = """
import build

model = {model}
model(value)  # which makes its weights
model.set_weights([weights[str(number)] for number in range(len(weights))])
{lines}
"""

_INPUT = """\
inputs = []
layer = {layer}
call = layer.call
layer.call = lambda value, *rest, **options: inputs.append(value) or call(value, *rest, **options)
model(value, training=False)
return {output}"""

_RESULT = """\
result = model(value, training=False)
return {output}"""

#: What does not change an output, of the configuration of a layer.
_WITHOUT_EFFECT = ("_initializer", "_regularizer", "_constraint", "dtype", "trainable", "name")


def script_of_layer(entry: Entry, model: Any, call: str, value: Any) -> tuple[str, Arrays]:
    """Return code and arrays that repeat a layer alone; no code if it is part of another.

    Parameters
    ----------
    call
        The expression that builds the model.
    value
        The input of the layer in the canonical form.
    """
    if entry.part or entry.is_container:
        return "", {}
    layer = entry.layer
    own = entry.to_own(value, value.shape)
    linear = "convolution" in entry.kind or entry.kind == "dense"
    has_activation = linear and callable(getattr(layer, "activation", None))
    with contextlib.ExitStack() as stack:
        if has_activation:
            stack.callback(wrap_call(layer, "activation", lambda _: lambda x: x))
        output = layer(ops.convert_to_tensor(own), training=False)
    access, found = tensor_in(output)
    text, activation = _constructor(layer, without_activation=has_activation), ""
    if _is_built_by(text, layer, own, found):
        text = f"layer = {text}"
    elif not _find(layer, model):
        return "", {}
    else:
        text = f"import build\n\nmodel = {call}\nlayer = {_find(layer, model)}"
        activation = "layer.activation = lambda x: x\n" if has_activation else ""
    moved = entry.is_channels_last and len(found.shape) > 2
    output_text = _as_numpy(f"output{access}", moved)
    code = _START.format(backend=keras.backend.backend())
    code += _LAYER.format(layer=text, activation=activation, output=output_text)
    return code, {"value": own, **_weights(layer)}


def script_of_tensor(entry: Entry | None, model: Any, call: str, batch: Any) -> tuple[str, Arrays]:
    """Return code and arrays that repeat a model up to the input of a layer, or the result."""
    if entry is not None and (entry.part or not _find(entry.layer, model)):
        return "", {}
    code = _START.format(backend=keras.backend.backend())
    if entry is None:
        access, found = tensor_in(model(batch, training=False))
        is_last = keras.config.image_data_format() == "channels_last"
        lines = _RESULT.format(
            output=_as_numpy(f"result{access}", is_last and len(found.shape) > 3)
        )
    else:
        output = _as_numpy("inputs[0]", entry.is_channels_last)
        lines = _INPUT.format(layer=_find(entry.layer, model), output=output)
    code += _TENSOR.format(model=call, lines=lines)
    return code, {"value": np.array(ops.convert_to_numpy(batch)), **_weights(model)}


def _constructor(layer: Any, without_activation: bool) -> str:
    """Return a call of the class with what is not its default."""
    with contextlib.suppress(Exception):  # a class may have no configuration
        config = layer.get_config()
        if without_activation:
            config["activation"] = None
        if config.get("data_format") == keras.config.image_data_format():
            del config["data_format"]
        known = inspect.signature(type(layer).__init__).parameters
        parts = [
            f"{key}={each!r}"
            for key, each in config.items()
            if key in known
            and not key.endswith(_WITHOUT_EFFECT)
            and (known[key].default != each or known[key].default is inspect.Parameter.empty)
        ]
        return f"keras.layers.{type(layer).__name__}({', '.join(parts)})"
    return ""


def _is_built_by(text: str, layer: Any, value: Any, output: Any) -> bool:
    """Whether the text is code that builds the same layer."""
    if not type(layer).__module__.startswith("keras."):
        return False
    with contextlib.suppress(Exception):  # whatever a class does with its configuration
        built = eval(text, {"keras": keras})
        built(value)
        built.set_weights(layer.get_weights())
        _, found = tensor_in(built(value, training=False))
        return bool(ops.all(ops.equal(found, output)))
    return False


def _find(layer: Any, model: Any) -> str:
    """Return the expression that finds a layer in the model that was built; empty if none does."""
    if layer is model:
        return "model"
    with contextlib.suppress(AttributeError, ValueError):
        if model.get_layer(layer.name) is layer:
            return f"model.get_layer({layer.name!r})"
    for number, each in enumerate(model._flatten_layers()):
        if each is layer:
            return f"list(model._flatten_layers())[{number}]"
    return ""


def _as_numpy(text: str, is_channels_last: bool) -> str:
    """Return an expression for an array, with the channels first."""
    text = f"keras.ops.convert_to_numpy({text})"
    return f"np.moveaxis({text}, -1, 1)" if is_channels_last else text


def _weights(layer: Any) -> Arrays:
    return {f"weights|{number}": each for number, each in enumerate(layer.get_weights())}
