"""A network as a table, for whoever draws or counts it."""

from __future__ import annotations

import math
from typing import Any

from horizont.networks.network import INPUT, Network


def outline(network: Network) -> list[dict[str, Any]]:
    """List the layers in the order of computing.

    Returns
    -------
    list of dict
        ``layer``, its ``kind``, the places of its ``sources`` in the list (the input is -1), the
        ``outputs`` of one example and the trainable ``weights``, both as counts.
    """
    numbers = {INPUT: -1}
    rows = []
    for number, place in enumerate(network.places):
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
