"""A workload: what is trained, apart from who trains it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from horizont.spec.base import Frozen


class Optimizer(Frozen):
    """The update rule; the same in every framework."""

    name: Literal["sgd"] = "sgd"
    learning_rate: float = Field(gt=0, lt=10)


class Workload(Frozen):
    """A network, the data it learns from, and how it learns.

    The batch belongs to the experiment (local or distributed), since the same workload is
    trained at several batch sizes.
    """

    network: str
    dataset: str
    optimizer: Optimizer
