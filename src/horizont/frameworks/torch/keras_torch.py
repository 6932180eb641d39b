"""What the recorder of Keras needs of PyTorch as its backend: gradients and a profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import torch_layers, torch_recorder
from .torch_threads import all_threads, limit_threads  # noqa: F401 - the recorder of Keras has them

operators, to_array = torch_recorder.operators, torch_layers.to_array


def versions() -> dict[str, str]:
    """Return the version of the backend."""
    return {"torch": torch.__version__}


class Tape:
    """The operations of one forward pass, which PyTorch records by itself."""

    def __init__(self) -> None:
        self._outputs: dict[str, Any] = {}

    def __enter__(self) -> Tape:
        return self

    def __exit__(self, *error: object) -> None:
        del error

    def watch(self, name: str, tensor: Any) -> Any:
        """Record a tensor, the gradient with respect to which is of interest, and return it."""
        if tensor.requires_grad:
            tensor.retain_grad()
            self._outputs[name] = tensor
        return tensor

    def gradients(
        self, loss: Any, variables: Sequence[Any], repeat: Callable[..., Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the gradients, None where there is none, and norms of those of tensors."""
        del repeat  # the pass is recorded already
        for each in variables:
            each.value.grad = None
        loss.backward()
        norms = {
            name: torch.linalg.vector_norm(tensor.grad)
            for name, tensor in self._outputs.items()
            if tensor.grad is not None
        }
        return [each.value.grad for each in variables], norms


def compiled(
    function: Callable[[Any], Any], stateless: Callable[..., Any], values: Sequence[Any]
) -> Callable[[Any], Any]:
    """Return a function as the backend executes it in `fit` and `predict`: as written."""
    del stateless, values  # variables are changed in place
    return function


def evaluating(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that records no operations for gradients."""
    return torch.no_grad()(function)
