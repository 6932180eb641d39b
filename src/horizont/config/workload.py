"""A workload: network, data set and optimizer, independent of the system that trains it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel, parse_config
from horizont.errors import UserError

MAX_UPSCALE = 8


class OptimizerConfig(ConfigModel):
    """The update rule, the same in every framework.

    Attributes
    ----------
    momentum, nesterov
        Of `sgd`: velocity = momentum * velocity + gradient; the weight moves by the velocity
        (Nesterov: by the gradient + momentum * velocity) times the learning rate.
    beta1, beta2, epsilon
        Of `adam`, as in algorithm 1 of Kingma and Ba, "Adam: a method for stochastic
        optimization", ICLR 2015: epsilon is added to the root of the corrected second moment.
    clip_norm
        If the global norm of the gradients is larger, they are scaled down to it. Workers of a
        parameter server clip their own gradients before they send them.
    weight_decay
        This fraction of a kernel or matrix is added to its gradient; biases, scales and offsets
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
        if self.name == "adam" and self.nesterov:
            raise UserError("nesterov", self.nesterov, "false with adam")
        if self.nesterov and not self.momentum:
            raise UserError("nesterov", self.nesterov, "false without momentum")
        return self

    @property
    def slots(self) -> tuple[str, ...]:
        """The slot variables of each weight."""
        if self.name == "adam":
            return ("first", "second")
        return ("velocity",) if self.momentum else ()


class Workload(ConfigModel):
    """A network, a data set and an optimizer.

    The batch belongs to the experiment, since the same workload is trained at several sizes. The
    settings are described in ``docs/settings.md``; `time_steps` has no meaning for images.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {"enlarge": "upscale"}

    network: str
    dataset: str
    upscale: int = Field(default=1, ge=1, le=MAX_UPSCALE)
    time_steps: int = Field(default=30, ge=1, le=1000)
    optimizer: OptimizerConfig
    initial_limit: float | None = Field(default=None, gt=0, le=1)

    def at_point(self, point: Mapping[str, Any]) -> Workload:
        """Return the workload at a sweep point, which may have `learning_rate`, `initial_limit`."""
        fields = self.model_dump()
        if "initial_limit" in point:
            fields["initial_limit"] = point["initial_limit"]
        if "learning_rate" in point:
            fields["optimizer"]["learning_rate"] = point["learning_rate"]
        return parse_config(Workload, fields)
