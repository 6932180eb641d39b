"""How workers that average among equals may spare messages."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from horizont.errors import UserError
from horizont.spec.base import Frozen
from horizont.spec.system import System

#: The one system that has these settings.
ABLE = "pytorch/sync/allreduce"


class Exchange(Frozen):
    """What is exchanged, and how often.

    Attributes
    ----------
    average_every
        1: gradients are averaged at every step. More: local SGD; each worker makes steps of its
        own, and the weights are averaged after every so many.
    compression
        `float16`: gradients travel with 16 bits a number.
    """

    average_every: int = Field(default=1, ge=1)
    compression: Literal["none", "float16"] = "none"

    @model_validator(mode="after")
    def _fits(self) -> Exchange:
        if self.average_every > 1 and self.compression != "none":
            raise UserError("compression", self.compression, "none where weights are averaged")
        return self


def check_exchange(system: System, exchange: Exchange) -> None:
    """Refuse settings that the system does not have."""
    if system.name == ABLE:
        return
    for field, value in exchange.model_dump().items():
        usual = Exchange.model_fields[field].default
        if value != usual:
            raise UserError(f"exchange.{field}", value, f"{usual} for {system.name}")
