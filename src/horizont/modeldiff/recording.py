"""Sides that can be asked for recordings, and the one that is a model in a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from horizont.modeldiff.process import Limits, SideFailed, SideProcess
from horizont.modeldiff.sides import SideSpec

Array = NDArray[Any]

#: How a layer is divided: rows from and to of each part, the names of the parts, or settings of the
#: norm that is folded into it.
Division = Sequence[Sequence[int]] | Sequence[str] | Mapping[str, Any]

#: The learning rate of the one update; some optimizers round it to single precision.
UPDATE_RATE = 0.125

#: The floating-point type in which models are timed.
TIMED_DTYPE = "float32"


class Call(NamedTuple):
    """A call of an operator, in seconds by a clock of its side, with and without inner calls."""

    name: str
    thread: int
    start_s: float
    total_s: float
    self_s: float


@dataclass(frozen=True)
class Layer:
    """A layer that owns weights.

    Attributes
    ----------
    kind
        ``convolution``, ``dense``, ``batch norm`` and so on; ``other`` if only its author knows.
    roles
        What its tensors are: ``kernel``, ``bias``, ``scale``, ``offset``, ``mean``, ``variance``.
    settings
        Values that another implementation may have chosen otherwise, by name.
    code
        File and line of its class.
    fixed
        Settings that its recorder cannot change.
    is_optional
        Whether it may be a constant, and no weight: it needs no partner.
    """

    name: str
    kind: str
    shapes: Mapping[str, tuple[int, ...]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""
    fixed: tuple[str, ...] = ()
    is_optional: bool = False


@dataclass(frozen=True)
class Repair:
    """A change of one layer, or of the result, for one run."""

    layer: str
    key: str
    value: Any

    def as_request(self) -> dict[str, Any]:
        """Return the repair for a runner."""
        return {"layer": self.layer, "key": self.key, "value": self.value}


@dataclass(frozen=True)
class Request:
    """One run of a model: with which weights, changes and inputs of layers.

    Attributes
    ----------
    feed
        Inputs and outputs of layers, which take the place of the model's own.
    projection
        What the result is multiplied by to get a loss; without it there are no gradients.
    """

    weights: Mapping[str, Array]
    dtype: str = "float64"
    training: bool = False
    projection: Array | None = None
    feed: Mapping[str, Array] = field(default_factory=dict)
    repairs: Sequence[Repair] = ()
    seed: int = 0


#: What was recorded, by name: ``input|layer``, ``output|layer``, ``gradient|layer|role``,
#: ``after|layer|role``, ``result``, ``loss``, and ``outer|layer``, the norm of the gradient with
#: respect to an output.
Recording = dict[str, Array]


#: The line of a snippet that stands for the import of the callable of the user.
BUILD_LINE = "import build"


@dataclass(frozen=True)
class Snippet:
    """Code of a side that repeats one tensor.

    Attributes
    ----------
    code
        The body of a function of ``value`` and ``weights``, with a line `BUILD_LINE` if it builds
        the model; empty if the side has none.
    arrays
        ``value``, and ``weights|name`` for each weight.
    python
        The interpreter that executes it.
    target
        What ``build`` is, as `SideSpec` has it.
    """

    code: str = ""
    arrays: Mapping[str, Array] = field(default_factory=dict)
    python: str = ""
    target: str = ""


class Side(Protocol):
    """A model that can be recorded."""

    @property
    def name(self) -> str:
        """How messages call it."""

    @property
    def can_run(self) -> bool:
        """Whether it can be run with other weights, changes and inputs."""

    @property
    def can_train(self) -> bool:
        """Whether gradients and an update of it can be recorded."""

    @property
    def processes(self) -> int:
        """In how many processes it is trained."""

    @property
    def peak_bytes(self) -> int:
        """The most memory that its processes have used."""

    @property
    def divisible(self) -> Sequence[str]:
        """Kinds of layers that it can record in parts."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of its Python and packages."""

    def open(self, batch: Array, dtype: str) -> list[Layer]:
        """Build the model, and return its layers in the order of execution."""

    def divide(self, divisions: Mapping[str, Division]) -> None:
        """Record some layers in parts when the model is built again."""

    def weights(self) -> dict[str, Array]:
        """Return its weights by layer and role."""

    def run(self, request: Request) -> Recording:
        """Run it once."""

    @property
    def has_loss(self) -> bool:
        """Whether it has a loss of its own."""

    def loss(self, result: Array, classes: Array) -> tuple[float, Array]:
        """Return its loss of a result, and the gradient with respect to the result."""

    @property
    def has_optimizer(self) -> bool:
        """Whether it has an optimizer of its own."""

    def rules(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what its optimizer does with each tensor, see `update_rules`."""

    def update(
        self, weights: Mapping[str, Array], gradients: Sequence[Mapping[str, Array]]
    ) -> dict[str, Array]:
        """Return the weights after its optimizer has applied some gradients, one by one."""

    def script(self, layer: str, weights: Mapping[str, Array], value: Array | None) -> Snippet:
        """Return code that repeats the output of a layer for an input.

        Without an input, what it repeats is the input of the layer, or the result if there is no
        layer either.
        """

    def time(self, part: str, seconds: float) -> float:
        """Return the mean seconds of a part of the model as it is, measured for some time."""

    def profile(self, part: str) -> list[Call]:
        """Return the calls of operators in a part."""

    def close(self) -> None:
        """Terminate what it started."""


class ModelSide:
    """A model in a process of its own."""

    def __init__(self, spec: SideSpec, folder: Path, limits: Limits) -> None:
        self.spec = spec
        self.process = SideProcess(spec, folder, limits)
        self.name = spec.label
        self.can_run = self.can_train = True
        self.processes = 1
        self.versions: Mapping[str, str] = {}
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
        names["projection"] = ""
        if request.feed:
            names["feed"] = self._write_once("feed", request.feed)
        if request.projection is not None:
            names["projection"] = self._write("p.npz", {"projection": request.projection})
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
