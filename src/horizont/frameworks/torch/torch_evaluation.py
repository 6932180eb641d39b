"""Dropout of a model of PyTorch, and what is meant for training and happens in evaluation.

It imports nothing of Horizont.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from .torch_sequences import SequenceCalls

#: Functions of dropout, which models may call without a module.
FUNCTIONS = (
    F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout,
    torch.dropout,
)  # fmt: skip

#: Dropout of whole branches in torchvision and timm, with the attribute of its probability.
_OF_BRANCHES = {"StochasticDepth": "p", "DropPath": "drop_prob"}

_WITH_DROPOUT = (nn.LSTM, nn.GRU, nn.RNN, nn.MultiheadAttention)


def dropouts_of(model: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """Yield the modules with dropout, and the attribute that has its rate."""
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            yield module, "p"
        elif type(module).__name__ in _OF_BRANCHES:
            yield module, _OF_BRANCHES[type(module).__name__]
        elif isinstance(module, _WITH_DROPOUT) and module.dropout:
            yield module, "dropout"


class Calls(TorchFunctionMode):
    """Calls of dropout, which draw nothing meanwhile, and of attention in one evaluation.

    Attributes
    ----------
    rates
        Of modules, in the order of definition, and of functions outside of them, as they are
        called.
    active
        Rates of what evaluation does not disable, each with the layer that follows.
    """

    def __init__(self, model: nn.Module, entries: Sequence[Any], examples: int) -> None:
        super().__init__()
        self._sequences = SequenceCalls(entries, examples)
        self._model, self._module_depth, self._waiting = model, 0, list[float]()
        self._hooks: list[Any] = []
        self.rates = [rate for each, name in dropouts_of(model) if (rate := getattr(each, name))]
        self.active: list[tuple[float, str]] = []

    def reach(self, layer: str) -> None:
        """Record that a layer is what follows the calls before."""
        self.active += [(rate, layer) for rate in self._waiting]
        self._waiting.clear()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch."""
        kwargs = kwargs or {}
        if func not in FUNCTIONS:
            return func(*args, **kwargs)
        named = dict(zip(("input", "p", "training"), args, strict=False))
        given: dict[str, Any] = {"p": 0.5, "training": True, **named, **kwargs}
        if not self._module_depth:
            self.rates += [given["p"]] if given["p"] else []
            self._note(given["p"], given["training"])
        return given["input"]

    def _note(self, rate: float, training: bool) -> None:
        if rate and training:
            self._waiting.append(rate)

    def settings(self, entry: Any) -> dict[str, str]:
        """Return how sequences are read, or which statistics a norm uses after `nn.Module.eval`."""
        if entry.kind != "batch norm":
            return self._sequences.settings(entry)
        is_running = not entry.module.training and entry.module.running_mean is not None
        return {"statistics in evaluation": "running" if is_running else "of the batch"}

    def __enter__(self) -> Any:
        """Record the calls from here on."""
        for module, name in dropouts_of(self._model):
            rate = getattr(module, name)

            def enter(module: nn.Module, _: Any, rate: float = rate) -> None:
                self._module_depth += 1
                self._note(rate, module.training)

            def leave(*_: Any) -> None:
                self._module_depth -= 1

            self._hooks.append(module.register_forward_pre_hook(enter))
            self._hooks.append(module.register_forward_hook(leave, always_call=True))
        self._hooks += self._sequences.hooks()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        """Stop recording; what follows the last call is the result."""
        super().__exit__(*error)
        for hook in self._hooks:
            hook.remove()
        self.reach("")


def no_dropout(model: nn.Module) -> list[Callable[[], object]]:
    """Disable dropout in modules, whose random numbers no other framework draws."""
    found = [(module, name, getattr(module, name)) for module, name in dropouts_of(model)]
    for module, name, _ in found:
        setattr(module, name, 0.0)
    return [partial(setattr, *each) for each in found]
