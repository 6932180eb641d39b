"""A network: its input, its layers in the order of computation, and the shapes between them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from horizont.errors import UserError
from horizont.networks.layers import Layer, Shape

#: The source of a layer that reads the input of the network.
INPUT = "input"


class LayerContext(NamedTuple):
    """A layer in its network, with its inputs and their shapes."""

    layer: Layer
    sources: tuple[str, ...]
    shapes: tuple[Shape, ...]

    @property
    def shape(self) -> Shape:
        """The shape of the first input."""
        return self.shapes[0]


@dataclass(frozen=True)
class Network:
    """A network for classification: the last layer outputs a score for each class.

    A language model classifies at each time step; its classes are the words.

    Attributes
    ----------
    input_shape
        (channels, height, width) of an example, or (time steps,) of text.
    layers
        In the order of computation: each after its sources.
    initial_limit
        Initial weights are uniform in [-limit, limit]; by default see
        :func:`horizont.networks.weights.initial_weights`.
    """

    name: str
    input_shape: Shape
    classes: int
    layers: tuple[Layer, ...]
    initial_limit: float | None = None

    def __post_init__(self) -> None:
        names = [layer.name for layer in self.layers]
        if len({*names, INPUT}) != len(names) + 1:
            raise UserError(f"{self.name}.layers", names, "unique names")
        time_steps = self.input_shape if self.reads_text else ()
        if self.shapes()[names[-1]] != (*time_steps, self.classes):
            allowed = f"a last layer with {self.classes} outputs"
            raise UserError(f"{self.name}.layers", names[-1], allowed)

    @property
    def reads_text(self) -> bool:
        """Whether the input is text, a sequence of word numbers."""
        return len(self.input_shape) == 1

    def with_fields(self, layer_type: type[Layer], **fields: Any) -> Network:
        """Return the network with other fields in all layers of a type."""
        layers = (
            replace(layer, **fields) if isinstance(layer, layer_type) else layer
            for layer in self.layers
        )
        return replace(self, layers=tuple(layers))

    def state_shapes(self) -> dict[str, Shape]:
        """Return the shapes of the recurrent state, by ``<layer>.<part>``."""
        return {
            f"{layer.name}.{part}": shape
            for layer in self.layers
            for part, shape in layer.state_shapes().items()
        }

    def shapes(self) -> dict[str, Shape]:
        """Return the output shape of each layer, by its name."""
        return {
            context.layer.name: context.layer.output_shape(*context.shapes)
            for context in self.layer_contexts
        }

    @property
    def layer_contexts(self) -> tuple[LayerContext, ...]:
        """The layers, each with its inputs, which must be earlier layers and of a valid shape."""
        shapes = {INPUT: self.input_shape}
        contexts = []
        previous = INPUT
        for layer in self.layers:
            sources = layer.sources or (previous,)
            for source in sources:
                if source not in shapes:
                    raise UserError(f"{layer.name}.sources", source, "an earlier layer")
            context = LayerContext(layer, sources, tuple(shapes[source] for source in sources))
            shapes[layer.name] = layer.output_shape(*context.shapes)
            contexts.append(context)
            previous = layer.name
        return tuple(contexts)


def summary(network: Network) -> list[dict[str, Any]]:
    """Return a table of the layers in the order of computation.

    Returns
    -------
    list of dict
        ``layer``, its ``kind``, the row numbers of its ``sources`` (-1 for the input), and the
        numbers of ``outputs`` for one example and of trained ``weights``.
    """
    numbers = {INPUT: -1}
    rows = []
    for number, context in enumerate(network.layer_contexts):
        layer = context.layer
        numbers[layer.name] = number
        rows.append(
            {
                "layer": layer.name,
                "kind": type(layer).__name__,
                "sources": tuple(numbers[source] for source in context.sources),
                "outputs": math.prod(layer.output_shape(*context.shapes)),
                "weights": sum(map(math.prod, layer.weight_shapes(context.shape).values())),
            }
        )
    return rows
