"""A network: its input, its layers in the order of computing, and the shapes between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from horizont.errors import UserError
from horizont.networks.layers import Layer, Shape

#: What a layer names as its source to receive the network's own input.
INPUT = "input"


class Place(NamedTuple):
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

    Attributes
    ----------
    input_shape
        (channels, height, width) of one example.
    layers
        Each stands after those whose outputs it receives.
    """

    name: str
    input_shape: Shape
    classes: int
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        names = [layer.name for layer in self.layers]
        if len({*names, INPUT}) != len(names) + 1:
            raise UserError(f"{self.name}.layers", names, "names that are all different")
        if self.shapes()[names[-1]] != (self.classes,):
            raise UserError(
                f"{self.name}.layers", names[-1], f"a last layer with {self.classes} outputs"
            )

    def shapes(self) -> dict[str, Shape]:
        """Tell the shape that each layer gives, by the name of the layer."""
        return {place.layer.name: place.layer.output_shape(*place.shapes) for place in self.places}

    @property
    def places(self) -> tuple[Place, ...]:
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
            place = Place(layer, sources, tuple(known[source] for source in sources))
            known[layer.name] = layer.output_shape(*place.shapes)
            places.append(place)
            before = layer.name
        return tuple(places)
