"""A side that is a model in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from horizont.modeldiff.process import Limits, SideFailed, SideProcess
from horizont.modeldiff.recording import (
    UPDATE_RATE,
    Array,
    Call,
    Division,
    Layer,
    Recording,
    Request,
    Snippet,
)
from horizont.modeldiff.sides import SideSpec

#: The floating-point type in which models are timed.
TIMED_DTYPE = "float32"


class ModelSide:
    """A model in a process of its own."""

    def __init__(self, spec: SideSpec, folder: Path, limits: Limits) -> None:
        self.spec = spec
        self.process = SideProcess(spec, folder, limits)
        self.name = spec.label
        self.can_run = self.can_train = True
        self.processes = 1
        self.versions: Mapping[str, str] = {}
        self.facts: Mapping[str, Any] = {}
        self.has_loss = self.has_optimizer = False
        self.divisible: Sequence[str] = ()
        self._divisions: dict[str, Division] = {}
        self._weights: dict[str, Array] = {}
        self._written: dict[str, Mapping[str, Array]] = {}
        #: Rank and size of the process group to which the process belongs, and its file.
        self.group: dict[str, Any] = {}

    @property
    def peak_bytes(self) -> int:
        """The most memory that its process has used."""
        return self.process.peak_bytes

    def open(self, batch: Array, dtype: str) -> list[Layer]:
        """Build the model, and return its layers in the order of execution."""
        self._write("batch.npz", {"batch": batch})
        answer = self.process.request(
            "open", target=self.spec.target, arguments=dict(self.spec.arguments),
            batch="batch.npz", dtype=dtype, out="weights.npz", divisions=self._divisions,
            group=self.group,
        )  # fmt: skip
        weights = self._read("weights.npz")
        self._weights = self._weights or weights
        if self._weights.keys() != weights.keys():
            raise SideFailed(f"{self.process.name} names its layers otherwise when built again")
        self.versions, self.divisible = answer["versions"], answer["divisible"]
        self.facts = answer["facts"]
        self.has_loss, self.has_optimizer = answer["has_loss"], answer["has_optimizer"]
        self.can_train = answer["can_train"]
        return [
            Layer(
                each["name"], each["kind"],
                {role: weights[f"{each['name']}|{role}"].shape for role in each["roles"]},
                each["settings"], each["code"], tuple(each.get("fixed", ())),
                each.get("is_optional", False),
            )
            for each in answer["layers"]
        ]  # fmt: skip

    def divide(self, divisions: Mapping[str, Division]) -> None:
        """Record some layers in parts when the model is built again."""
        self._divisions |= divisions
        self._weights = {}  # with other names

    def weights(self) -> dict[str, Array]:
        """Return its weights by layer and role."""
        return self._weights

    def run(self, request: Request) -> Recording:
        """Run it once."""
        names = {"weights": self._write_once("weights", request.weights), "feed": ""}
        names["projection"] = names["others"] = ""
        if request.feed:
            names["feed"] = self._write_once("feed", request.feed)
        if request.projection is not None:
            names["projection"] = self._write("p.npz", {"projection": request.projection})
        if request.others:
            names["others"] = self._write_once("others", request.others)
        self.process.request(
            "run", **names, out="out.npz", dtype=request.dtype, training=request.training,
            repairs=[each.as_request() for each in request.repairs], rate=UPDATE_RATE,
            seed=request.seed,
        )  # fmt: skip
        return self._read("out.npz")

    def loss(self, result: Array, classes: Array) -> tuple[float, Array]:
        """Return its loss of a result, and the gradient with respect to the result."""
        given = self._write("given.npz", {"result": result, "classes": classes})
        self.process.request("loss", given=given, out="out.npz", dtype="float64")
        found = self._read("out.npz")
        return float(found["loss"]), found["gradient"]

    def rules(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what its optimizer does with each tensor, see `update_rules`."""
        return dict(self.process.request("rules", dtype="float64")["rules"])

    def update(
        self, weights: Mapping[str, Array], gradients: Sequence[Mapping[str, Array]]
    ) -> dict[str, Array]:
        """Return the weights after its optimizer has applied some gradients, one by one."""
        numbered = {
            f"{number}|{key}": value
            for number, each in enumerate(gradients)
            for key, value in each.items()
        }
        self.process.request(
            "update", weights=self._write_once("weights", weights), steps=len(gradients),
            gradients=self._write("gradients.npz", numbered), out="out.npz", dtype="float64",
        )  # fmt: skip
        return self._read("out.npz")

    def script(self, layer: str, weights: Mapping[str, Array], value: Array | None) -> Snippet:
        """Return code that repeats what a layer, or the model before it, computes."""
        given = "" if value is None else self._write("given.npz", {"input": value})
        answer = self.process.request(
            "script", layer=layer, given=given, out="out.npz", dtype="float64",
            weights=self._write_once("weights", weights),
        )  # fmt: skip
        arrays = self._read("out.npz") if answer["code"] else {}
        return Snippet(answer["code"], arrays, self.spec.python, self.spec.target)

    def time(self, part: str, seconds: float) -> float:
        """Return the mean seconds of a part of the model as it is, measured for some time."""
        answer = self.process.request("time", part=part, seconds=seconds, dtype=TIMED_DTYPE)
        return float(answer["mean_s"])

    def profile(self, part: str) -> list[Call]:
        """Return the calls of operators in a part."""
        answer = self.process.request("profile", part=part, dtype=TIMED_DTYPE)
        return [Call(*each) for each in answer["operators"]]

    def close(self) -> None:
        """Terminate its process."""
        self.process.close()

    def _write_once(self, kind: str, arrays: Mapping[str, Array]) -> str:
        """Write arrays unless the last run had the same ones."""
        if self._written.get(kind) is not arrays:
            self._write(f"{kind}-of-run.npz", arrays)
            self._written[kind] = arrays
        return f"{kind}-of-run.npz"

    def _write(self, name: str, arrays: Mapping[str, Array]) -> str:
        np.savez(self.process.folder / name, **dict(arrays))  # type: ignore[arg-type]
        return name

    def _read(self, name: str) -> dict[str, Array]:
        with np.load(self.process.folder / name, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
