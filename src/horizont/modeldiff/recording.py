"""What is recorded of a model, and what a side has to be to be asked for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

Array = NDArray[Any]

#: How a layer is divided: rows from and to of each part, the names of the parts, or settings of the
#: norm that is folded into it.
Division = Sequence[Sequence[int]] | Sequence[str] | Mapping[str, Any]

#: The learning rate of the one update; some optimizers round it to single precision.
UPDATE_RATE = 0.125


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
    others
        The same of further results, by their places in what the model returns.
    """

    weights: Mapping[str, Array]
    dtype: str = "float64"
    training: bool = False
    projection: Array | None = None
    others: Mapping[str, Array] = field(default_factory=dict)
    feed: Mapping[str, Array] = field(default_factory=dict)
    repairs: Sequence[Repair] = ()
    seed: int = 0


#: What was recorded, by name: ``input|layer``, ``output|layer``, ``gradient|layer|role``,
#: ``after|layer|role``, ``result``, ``result|place`` of a further one, ``loss``, and
#: ``outer|layer``, the norm of the gradient with respect to an output.
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

    @property
    def facts(self) -> Mapping[str, Any]:
        """What a comparison leaves out, see `left_out`; what is not known is missing."""

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
