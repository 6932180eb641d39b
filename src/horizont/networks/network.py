"""A network: its input, its layers in a row, and the shapes between them."""

from __future__ import annotations

from dataclasses import dataclass

from horizont.errors import UserError
from horizont.networks.layers import Layer, Shape


@dataclass(frozen=True)
class Network:
    """A network for classification: the last layer gives a score for each class.

    Attributes
    ----------
    input_shape
        (channels, height, width) of one example.
    """

    name: str
    input_shape: Shape
    classes: int
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        names = [layer.name for layer in self.layers]
        if len(set(names)) != len(names):
            raise UserError(f"{self.name}.layers", names, "names that are all different")
        if self.shapes()[names[-1]] != (self.classes,):
            raise UserError(
                f"{self.name}.layers", names[-1], f"a last layer with {self.classes} outputs"
            )

    def shapes(self) -> dict[str, Shape]:
        """Tell the shape that each layer gives, by the name of the layer."""
        shape = self.input_shape
        shapes = {}
        for layer in self.layers:
            shape = layer.output_shape(shape)
            shapes[layer.name] = shape
        return shapes

    def inputs(self) -> list[tuple[Layer, Shape]]:
        """List the layers, each with the shape that it receives."""
        return list(zip(self.layers, [self.input_shape, *self.shapes().values()], strict=False))
