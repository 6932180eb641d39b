"""Faults: what is done to a process in the middle of a run, on purpose.

A *mutation* of the comparator is a defect in the training itself; a fault comes from outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel
from horizont.config.framework import RoleName
from horizont.config.system import System
from horizont.config.topology import Topology
from horizont.errors import UserError

FaultKind = Literal["kill", "pause", "throttle", "disconnect", "restart"]

#: A role, or `coordinator`: the process at which the others of a system meet, which is the chief,
#: the scheduler, or the first worker, whose store the others use.
FaultTarget = Literal["worker", "server", "scheduler", "chief", "coordinator"]

#: What has happened to the target, for prose.
PAST_PARTICIPLE: dict[FaultKind, str] = {
    "kill": "killed",
    "pause": "paused",
    "throttle": "throttled",
    "disconnect": "disconnected",
    "restart": "restarted",
}


class FaultSpec(ConfigModel):
    """A fault and the process of a run that it is injected into.

    Its settings are those of ``docs/settings.md``. A paused process exists but does not respond.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {
        "role": "target",
        "for_s": "duration_s",
        "share": "cpu_fraction",
    }

    kind: FaultKind
    target: FaultTarget
    rank: int = Field(default=0, ge=0)
    at_step: int = Field(default=10, ge=1)
    duration_s: float | None = Field(default=None, gt=0)
    cpu_fraction: float | None = Field(default=None, gt=0, lt=1)

    @property
    def name(self) -> str:
        """A phrase such as `worker 1 killed`."""
        number = "" if self.target in ("scheduler", "chief", "coordinator") else f" {self.rank}"
        fraction = f" to {self.cpu_fraction:.0%}" if self.cpu_fraction else ""
        duration = f" for {self.duration_s:g} s" if self.duration_s else ""
        return f"{self.target}{number} {PAST_PARTICIPLE[self.kind]}{fraction}{duration}"

    @model_validator(mode="after")
    def _check_consistency(self) -> FaultSpec:
        if self.kind == "throttle" and self.cpu_fraction is None:
            raise UserError("cpu_fraction", None, "a fraction between 0 and 1 for kind throttle")
        if self.kind != "throttle" and self.cpu_fraction is not None:
            raise UserError("cpu_fraction", self.cpu_fraction, f"nothing for kind {self.kind}")
        if self.kind == "kill" and self.duration_s is not None:
            raise UserError("duration_s", self.duration_s, f"nothing for kind {self.kind}")
        if self.kind == "restart" and self.duration_s is None:
            raise UserError("duration_s", None, "the seconds until the process is started again")
        return self

    def target_process(self, system: System) -> tuple[RoleName, int]:
        """Return role and rank of the target; refuse a system that has no such role."""
        roles: tuple[RoleName, ...] = ("worker", *system.info.roles)
        if self.target != "coordinator":
            if self.target not in roles:
                raise UserError("target", self.target, fault_targets(system))
            return self.target, self.rank
        if system.is_local:
            raise UserError("target", self.target, "worker in a single-process system")
        if self.rank:
            raise UserError("rank", self.rank, "0 for the coordinator")
        return next((role for role in roles if role in ("chief", "scheduler")), "worker"), 0


def fault_targets(system: System) -> tuple[FaultTarget, ...]:
    """Return the targets of faults that a system has."""
    roles: tuple[RoleName, ...] = ("worker", *system.info.roles)
    return roles if system.is_local else (*roles, "coordinator")


def applies_to(fault: FaultSpec, system: System) -> bool:
    """Whether a system has the target of a fault."""
    try:
        fault.target_process(system)
    except UserError:
        return False
    return True


def check_fault(fault: FaultSpec, system: System, topology: Topology, steps: int) -> None:
    """Refuse a fault that is impossible in a run of so many steps."""
    role, rank = fault.target_process(system)
    count = {"worker": topology.workers, "server": topology.servers}.get(role, 1)
    if rank >= count:
        raise UserError("rank", rank, f"below {count}, the processes of the role {role}")
    if fault.at_step >= steps:
        raise UserError("at_step", fault.at_step, f"below the {steps} steps of a worker")
