"""A network: its input, its layers in the order of computing, and the shapes between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from horizont.errors import UserError
from horizont.networks.layers import Layer, Shape

#: What a layer names as its source to receive the network's own input.
INPUT = "input"


class LayerContext(NamedTuple):
    """A layer where it stands: what it receives, from whom, and in which shapes."""

    layer: Layer
    sources: tuple[str, ...]
    shapes: tuple[Shape, ...]

    @property
    def shape(self) -> Shape:
        """The shape of the only input, or of the first."""
        return self.shapes[0]


@dataclass(frozen=True)
class Network:
    """A network for classification: the last layer gives a score for each class.

    A language model classifies at each time step: its classes are the words, one of which is
    the next.

    Attributes
    ----------
    input_shape
        (channels, height, width) of one example, or (time steps,) of a text.
    layers
        Each stands after those whose outputs it receives.
    initial_limit
        All weights begin uniform between minus and plus this; left out, as is usual for images
        (see :func:`horizont.networks.initial_weights`).
    """

    name: str
    input_shape: Shape
    classes: int
    layers: tuple[Layer, ...]
    initial_limit: float | None = None

    def __post_init__(self) -> None:
        names = [layer.name for layer in self.layers]
        if len({*names, INPUT}) != len(names) + 1:
            raise UserError(f"{self.name}.layers", names, "names that are all different")
        if self.shapes()[names[-1]] != (*self.time_steps, self.classes):
            raise UserError(
                f"{self.name}.layers", names[-1], f"a last layer with {self.classes} outputs"
            )

    @property
    def time_steps(self) -> Shape:
        """The shape of a text, (time steps,); of images nothing."""
        return self.input_shape if self.reads_text else ()

    @property
    def reads_text(self) -> bool:
        """Whether the input is the numbers of words, in their order."""
        return len(self.input_shape) == 1

    def state_shapes(self) -> dict[str, Shape]:
        """Tell the shapes of what is carried from batch to batch, by ``<layer>.<part>``."""
        return {
            f"{layer.name}.{part}": shape
            for layer in self.layers
            for part, shape in layer.state_shapes().items()
        }

    def shapes(self) -> dict[str, Shape]:
        """Tell the shape that each layer gives, by the name of the layer."""
        return {
            place.layer.name: place.layer.output_shape(*place.shapes)
            for place in self.layer_contexts
        }

    @property
    def layer_contexts(self) -> tuple[LayerContext, ...]:
        """The layers, each with what it receives.

        Raises
        ------
        UserError
            If a layer receives what no layer before it gives, or cannot work on it.
        """
        known = {INPUT: self.input_shape}
        places = []
        before = INPUT
        for layer in self.layers:
            sources = layer.sources or (before,)
            for source in sources:
                if source not in known:
                    raise UserError(f"{layer.name}.sources", source, "a layer that stands before")
            place = LayerContext(layer, sources, tuple(known[source] for source in sources))
            known[layer.name] = layer.output_shape(*place.shapes)
            places.append(place)
            before = layer.name
        return tuple(places)


def summary(network: Network) -> list[dict[str, Any]]:
    """List the layers in the order of computing.

    Returns
    -------
    list of dict
        ``layer``, its ``kind``, the places of its ``sources`` in the list (the input is -1), the
        ``outputs`` of one example and the trainable ``weights``, both as counts.
    """
    numbers = {INPUT: -1}
    rows = []
    for number, place in enumerate(network.layer_contexts):
        layer = place.layer
        numbers[layer.name] = number
        rows.append(
            {
                "layer": layer.name,
                "kind": type(layer).__name__,
                "sources": tuple(numbers[source] for source in place.sources),
                "outputs": math.prod(layer.output_shape(*place.shapes)),
                "weights": sum(map(math.prod, layer.weight_shapes(place.shape).values())),
            }
        )
    return rows
