"""A workload: what is trained, apart from who trains it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel
from horizont.errors import UserError


class OptimizerConfig(ConfigModel):
    """The update rule; the same in every framework.

    Attributes
    ----------
    momentum, nesterov
        Of `sgd`: velocity = momentum * velocity + gradient; the weight moves by the velocity
        (Nesterov: by the gradient + momentum * velocity) times the learning rate.
    beta1, beta2, epsilon
        Of `adam`, as in algorithm 1 of Kingma and Ba, "Adam: a method for stochastic
        optimization", ICLR 2015: epsilon is added to the root of the corrected second moment.
    clip_norm
        If the norm of all gradients together is larger, they are scaled down to it. A worker
        whose servers sum the gradients clips its own before it sends them.
    weight_decay
        This share of a kernel or matrix is added to its gradient; biases, scales and offsets
        do not decay.
    """

    name: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = Field(gt=0, lt=10)
    momentum: float = Field(default=0.0, ge=0, lt=1)
    nesterov: bool = False
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)
    epsilon: float = Field(default=1e-8, gt=0)
    clip_norm: float | None = Field(default=None, gt=0)
    weight_decay: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _check_consistency(self) -> OptimizerConfig:
        if self.name == "adam" and self.momentum:
            raise UserError("momentum", self.momentum, "0 with adam, which has beta1")
        if self.nesterov and not self.momentum:
            raise UserError("nesterov", self.nesterov, "false without momentum")
        return self

    @property
    def slots(self) -> tuple[str, ...]:
        """What is kept of each weight beside its value."""
        if self.name == "adam":
            return ("first", "second")
        return ("velocity",) if self.momentum else ()


class Workload(ConfigModel):
    """A network, the data it learns from, and how it learns.

    The batch belongs to the experiment (local or distributed), since the same workload is
    trained at several batch sizes.

    Attributes
    ----------
    enlarge
        Each pixel of the data becomes a square of so many by so many: AlexNet needs 64x64.
    time_steps
        Words of a text that the network reads at once; of no meaning for images.
    """

    network: str
    dataset: str
    upscale: int = Field(default=1, ge=1, le=8)
    time_steps: int = Field(default=30, ge=1, le=1000)
    optimizer: OptimizerConfig
