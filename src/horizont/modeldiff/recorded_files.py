"""The side that is files which a program of the user wrote earlier."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from horizont.modeldiff.process import SideFailed
from horizont.modeldiff.recording import Array, Call, Division, Layer, Recording, Request, Snippet
from horizont.modeldiff.sides import SideSpec


class DumpSide:
    """Files that a program of the user wrote with `horizont.modeldiff.dump`."""

    can_run = can_train = has_loss = has_optimizer = False
    divisible: Sequence[str] = ()
    processes, peak_bytes = 1, 0

    def __init__(self, spec: SideSpec) -> None:
        self.name = spec.label
        folder = Path(spec.target)
        try:
            self._about = json.loads((folder / "recording.json").read_text(encoding="utf-8"))
            with np.load(folder / "recording.npz", allow_pickle=False) as file:
                self._arrays = {key: file[key] for key in file.files}
            self.batch: Array = self._arrays.pop("batch")
        except (OSError, ValueError, KeyError) as error:
            raise SideFailed(f"side {spec.label}: {folder} cannot be read: {error}") from error
        self.versions: Mapping[str, str] = self._about.get("versions", {})
        self.facts: Mapping[str, object] = {}

    def open(self, batch: Array, dtype: str) -> list[Layer]:
        """Return the layers in the order in which they were recorded."""
        del batch, dtype
        return [
            Layer(
                each["name"], each["kind"],
                {r: self._arrays[f"weight|{each['name']}|{r}"].shape for r in each["roles"]},
                each["settings"],
            )
            for each in self._about["layers"]
        ]  # fmt: skip

    def divide(self, divisions: Mapping[str, Division]) -> None:
        """Refuse: files remain what they are."""
        raise SideFailed(f"side {self.name} is a recording, whose layers cannot be divided")

    def weights(self) -> dict[str, Array]:
        """Return its weights by layer and role."""
        return {
            key.removeprefix("weight|"): value
            for key, value in self._arrays.items()
            if key.startswith("weight|")
        }

    def run(self, request: Request) -> Recording:
        """Return what was recorded in evaluation or in training."""
        start = "training|" if request.training else "evaluation|"
        return {
            key.removeprefix(start): value
            for key, value in self._arrays.items()
            if key.startswith(start)
        }

    def loss(self, result: Array, classes: Array) -> tuple[float, Array]:
        """Refuse: files have no loss."""
        raise SideFailed(f"side {self.name} is a recording, which has no loss")

    def rules(self) -> Mapping[str, Mapping[str, Any]]:
        """Refuse: files have no optimizer."""
        raise SideFailed(f"side {self.name} is a recording, which has no optimizer")

    def update(
        self, weights: Mapping[str, Array], gradients: Sequence[Mapping[str, Array]]
    ) -> dict[str, Array]:
        """Refuse, likewise."""
        raise SideFailed(f"side {self.name} is a recording, which has no optimizer")

    def script(self, layer: str, weights: Mapping[str, Array], value: Array | None) -> Snippet:
        """Return no code: files have none."""
        return Snippet()

    def time(self, part: str, seconds: float) -> float:
        """Refuse: files take no time."""
        raise SideFailed(f"side {self.name} is a recording, which cannot be timed")

    def profile(self, part: str) -> list[Call]:
        """Refuse, likewise."""
        raise SideFailed(f"side {self.name} is a recording, which cannot be profiled")

    def close(self) -> None:
        """Do nothing."""
