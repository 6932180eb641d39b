"""The networks by name. A new one is a file beside this one and a line here."""

from __future__ import annotations

from collections.abc import Callable

from horizont.errors import UserError
from horizont.networks.layers import Shape
from horizont.networks.lenet import lenet
from horizont.networks.lenet5 import lenet5
from horizont.networks.network import Network

NETWORKS: dict[str, Callable[[Shape, int], Network]] = {
    "lenet": lenet,
    "lenet5": lenet5,
}


def build_network(name: str, input_shape: Shape, classes: int) -> Network:
    """Describe a network for inputs of a shape and a number of classes.

    Raises
    ------
    UserError
        If there is no such network, or its layers do not fit the input.
    """
    if name not in NETWORKS:
        raise UserError("network", name, sorted(NETWORKS))
    return NETWORKS[name](input_shape, classes)
