"""The networks by name. A new one is a file beside this one and a line here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from horizont.errors import UserError
from horizont.networks.alexnet import alexnet, alexnet_small
from horizont.networks.inception import inception
from horizont.networks.layers import Shape
from horizont.networks.lenet import lenet
from horizont.networks.lenet5 import lenet5
from horizont.networks.lstm import lstm
from horizont.networks.network import Network
from horizont.networks.resnet import resnet
from horizont.spec import Workload

NETWORKS: dict[str, Callable[[Shape, int], Network]] = {
    "alexnet": alexnet,
    "alexnet-small": alexnet_small,
    "inception": inception,
    "lenet": lenet,
    "lenet5": lenet5,
    "lstm": lstm,
    "resnet18": partial(resnet, depth=18),
    "resnet18-small-stem": partial(resnet, depth=18, stem="small"),
    "resnet50": partial(resnet, depth=50),
    "resnet50-small-stem": partial(resnet, depth=50, stem="small"),
}

#: Those that read texts.
LANGUAGE_MODELS = {"lstm"}


def build_network(name: str, input_shape: Shape, classes: int) -> Network:
    """Describe a network for inputs of a shape and a number of classes.

    Raises
    ------
    UserError
        If there is no such network, or its layers do not fit the input.
    """
    if name not in NETWORKS:
        raise UserError("network", name, sorted(NETWORKS))
    if (len(input_shape) == 1) != (name in LANGUAGE_MODELS):
        kind = "a data set of texts" if name in LANGUAGE_MODELS else "a data set of images"
        raise UserError("network", name, f"{kind} for it")
    return NETWORKS[name](input_shape, classes)


def network_for(workload: Workload, shape: Shape, classes: int) -> Network:
    """Describe the network of a workload.

    Parameters
    ----------
    shape
        Of the data: images, before they are enlarged; () for a text.
    """
    if not shape:
        return build_network(workload.network, (workload.time_steps,), classes)
    channels, *sides = shape
    enlarged = (channels, *(side * workload.enlarge for side in sides))
    return build_network(workload.network, enlarged, classes)
