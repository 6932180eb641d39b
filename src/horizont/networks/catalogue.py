"""The registry of networks. A new network is a file in this folder and a line here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from horizont.config.workload import MAX_UPSCALE, Workload
from horizont.errors import UserError
from horizont.networks.alexnet import build_alexnet, build_alexnet_small
from horizont.networks.inception import build_inception
from horizont.networks.layers import InputTooSmall, Shape
from horizont.networks.lenet import build_lenet, build_lenet5
from horizont.networks.lstm import build_lstm
from horizont.networks.network import Network
from horizont.networks.resnet import build_resnet

NETWORKS: dict[str, Callable[[Shape, int], Network]] = {
    "alexnet": build_alexnet,
    "alexnet-small": build_alexnet_small,
    "inception": build_inception,
    "lenet": build_lenet,
    "lenet5": build_lenet5,
    "lstm": build_lstm,
    "resnet18": partial(build_resnet, depth=18),
    "resnet18-small-stem": partial(build_resnet, depth=18, stem="small"),
    "resnet50": partial(build_resnet, depth=50),
    "resnet50-small-stem": partial(build_resnet, depth=50, stem="small"),
}

#: Networks that read text.
LANGUAGE_MODELS = {"lstm"}


def build_network(name: str, input_shape: Shape, classes: int) -> Network:
    """Build a network for inputs of a shape and a number of classes; refuse impossible ones."""
    if name not in NETWORKS:
        raise UserError("network", name, sorted(NETWORKS))
    if (len(input_shape) == 1) != (name in LANGUAGE_MODELS):
        kind = "a text data set" if name in LANGUAGE_MODELS else "an image data set"
        raise UserError("network", name, f"{kind} for it")
    return NETWORKS[name](input_shape, classes)


def network_for(workload: Workload, shape: Shape, classes: int) -> Network:
    """Build the network of a workload; the shape is that of an image before upscaling, or ()."""
    if not shape:
        return build_network(workload.network, (workload.time_steps,), classes)
    try:
        return _build_upscaled(workload.network, shape, classes, workload.upscale)
    except InputTooSmall:
        size = "x".join(map(str, shape[1:]))
        allowed = f"{_least_upscale(workload, shape, classes)} on images of {size} pixels"
        raise UserError("upscale", workload.upscale, allowed) from None


def _build_upscaled(name: str, shape: Shape, classes: int, upscale: int) -> Network:
    channels, *sides = shape
    return build_network(name, (channels, *(side * upscale for side in sides)), classes)


def _least_upscale(workload: Workload, shape: Shape, classes: int) -> str:
    """Return which values of `upscale` make images large enough for a network, as a phrase."""
    for upscale in range(workload.upscale + 1, MAX_UPSCALE + 1):
        with suppress(InputTooSmall):
            _build_upscaled(workload.network, shape, classes, upscale)
            return f"at least {upscale} for {workload.network}"
    return f"another network than {workload.network}"
