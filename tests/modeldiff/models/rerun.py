"""Published models that are computed otherwise: threads, layout of images, algorithms, weights."""

from __future__ import annotations

from typing import Any

import torch
from published import timm, torchvision, transformers
from torch import nn

TEXT = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}


def build(
    package: str,
    name: str,
    seed: int = 0,
    threads: int = 1,
    channels_last: bool = False,
    own_algorithms: bool = False,
    reversed_sums: bool = False,
) -> Any:
    """Return a model with random weights of a seed.

    Parameters
    ----------
    own_algorithms
        Whether PyTorch computes convolutions and products itself, and no library of Intel does.
    reversed_sums
        Whether the inputs of each matrix are in the reverse order.
    """
    torch.set_num_threads(threads)
    torch.backends.mkldnn.enabled = not own_algorithms
    torch.manual_seed(seed)
    if package == "transformers":
        sizes = {} if name == "GPT2LMHeadModel" else TEXT
        if name == "GPT2LMHeadModel":
            sizes = {"n_embd": 64, "n_layer": 3, "n_head": 4}
        model = transformers(name, **sizes)
    else:
        model = {"torchvision": torchvision, "timm": timm}[package](name)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    if reversed_sums:
        for layer in model.modules():
            if type(layer) is nn.Linear:
                layer.forward = _reversed(layer)
    return model


def _reversed(layer: Any) -> Any:
    def forward(value: Any) -> Any:
        return nn.functional.linear(value.flip(-1), layer.weight.flip(-1), layer.bias)

    return forward
