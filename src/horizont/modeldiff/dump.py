"""Recorded files of a model in any language: the side ``dump:FOLDER``.

This file needs NumPy alone, and can be copied to where the model runs:

>>> dump = Dump("recorded", batch)
>>> dump.layer("conv1", "convolution", {"kernel": w, "bias": b}, x, y, padding=[[1, 1], [1, 1]])
>>> dump.save(result)

Layers are added in the order of execution. Kernels have the layouts ``OIHW`` and ``(out, in)``,
images ``NCHW``. An output is that of the layer alone, without an activation.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

#: Kinds of layers, with the roles of their tensors.
KINDS = {
    "convolution": ("kernel", "bias"),
    "dense": ("kernel", "bias"),
    "batch norm": ("scale", "offset", "mean", "variance"),
    "layer norm": ("scale", "offset"),
    "group norm": ("scale", "offset"),
    "embedding": ("kernel",),
    "LSTM": ("kernel", "recurrent", "bias"),
    "GRU": ("kernel", "recurrent", "bias", "recurrent bias"),
}


class Dump:
    """A recording of one evaluation of a model, in float64 if the model can compute in it."""

    def __init__(self, folder: str, batch: Any) -> None:
        self.folder = folder
        self._layers: list[dict[str, Any]] = []
        self._arrays: dict[str, Any] = {"batch": np.asarray(batch)}

    def layer(
        self,
        name: str,
        kind: str,
        weights: dict[str, Any],
        input: Any = None,
        output: Any = None,
        **settings: Any,
    ) -> None:
        """Add a layer; settings are those of `repairs.SETTINGS`, such as ``epsilon=1e-5``."""
        unknown = set(weights) - set(KINDS.get(kind, weights))
        if unknown:
            raise ValueError(f"{kind} has no {sorted(unknown)}; it has {KINDS[kind]}")
        if any(each["name"] == name for each in self._layers):
            raise ValueError(f"there is a layer {name} already")
        for role, value in weights.items():
            self._arrays[f"weight|{name}|{role}"] = np.asarray(value)
        for quantity, value in (("input", input), ("output", output)):
            if value is not None:
                self._arrays[f"evaluation|{quantity}|{name}"] = np.asarray(value)
        about = {"name": name, "kind": kind, "roles": list(weights), "settings": settings}
        self._layers.append(about)

    def save(self, result: Any, **versions: str) -> None:
        """Write the recording; versions are those of packages, for the report."""
        self._arrays["evaluation|result"] = np.asarray(result)
        os.makedirs(self.folder, exist_ok=True)
        np.savez(os.path.join(self.folder, "recording.npz"), **self._arrays)
        with open(os.path.join(self.folder, "recording.json"), "w", encoding="utf-8") as file:
            json.dump({"layers": self._layers, "versions": versions}, file)
