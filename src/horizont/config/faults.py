"""Incidents: what befalls a process in the middle of a run, on purpose, to see what comes of it.

A *fault* of the comparator is a mistake in the training itself; an incident comes from outside.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel
from horizont.config.system import RoleName, System
from horizont.config.topology import Topology
from horizont.errors import UserError

FaultKind = Literal["kill", "pause", "throttle", "disconnect", "restart"]

#: A role, or whoever the processes of a system meet at: the chief, the scheduler, or the first
#: worker, whose store the others meet at.
FaultTarget = Literal["worker", "server", "scheduler", "chief", "coordinator"]

#: Kinds with an end of their own: after `for_s` seconds all is as before.
TRANSIENT: tuple[FaultKind, ...] = ("pause", "throttle", "disconnect", "restart")


class FaultSpec(ConfigModel):
    """What happens to one process of a run.

    Attributes
    ----------
    kind
        `killed`: ended at once (SIGKILL). `frozen`: stopped (SIGSTOP), still there but silent.
        `slowed`: run for a share of the time only. `cut_off`: without its network. `restarted`:
        killed, and started anew.
    role, rank
        Who it happens to.
    at_step
        Once the process has made so many steps; one that does not count its own, once the
        slowest worker has.
    for_s
        How long it lasts, in seconds; nothing lasts to the end. Of `restarted`: how long the
        process is away.
    share
        Of the time that a slowed process may run.
    """

    kind: FaultKind
    target: FaultTarget
    rank: int = Field(default=0, ge=0)
    at_step: int = Field(default=10, ge=1)
    duration_s: float | None = Field(default=None, gt=0)
    cpu_fraction: float | None = Field(default=None, gt=0, lt=1)

    @property
    def name(self) -> str:
        """A few words: `worker 1 killed`."""
        number = "" if self.target in ("scheduler", "chief", "coordinator") else f" {self.rank}"
        lasting = f" for {self.duration_s:g} s" if self.duration_s else ""
        much = f" to {self.cpu_fraction:.0%}" if self.cpu_fraction else ""
        return f"{self.target}{number} {self.kind.replace('_', ' ')}{much}{lasting}"

    @model_validator(mode="after")
    def _check_consistency(self) -> FaultSpec:
        if self.kind == "throttle" and self.cpu_fraction is None:
            raise UserError(
                "cpu_fraction", None, "a cpu_fraction between 0 and 1 where the kind is slowed"
            )
        if self.kind != "throttle" and self.cpu_fraction is not None:
            raise UserError(
                "cpu_fraction", self.cpu_fraction, f"nothing where the kind is {self.kind}"
            )
        if self.kind not in TRANSIENT and self.duration_s is not None:
            raise UserError("duration_s", self.duration_s, f"nothing where the kind is {self.kind}")
        if self.kind == "restart" and self.duration_s is None:
            raise UserError("duration_s", None, "the seconds until it is started again")
        return self

    def target_process(self, system: System) -> tuple[RoleName, int]:
        """Tell role and rank of the process that it happens to.

        Raises
        ------
        UserError
            If the system has no such role.
        """
        roles: tuple[RoleName, ...] = ("worker", *system.info.roles)
        if self.target != "coordinator":
            if self.target not in roles:
                raise UserError("target", self.target, [*roles, "coordinator"])
            return self.target, self.rank
        if system.is_local:
            raise UserError("target", self.target, "worker where one process trains alone")
        if self.rank:
            raise UserError("rank", self.rank, "0 for the coordinator")
        return next((role for role in roles if role in ("chief", "scheduler")), "worker"), 0


def applies_to(fault: FaultSpec, system: System) -> bool:
    """Whether a system has the role that an incident happens to."""
    try:
        fault.target_process(system)
    except UserError:
        return False
    return True


def check_fault(fault: FaultSpec, system: System, topology: Topology, steps: int) -> None:
    """Refuse an incident that cannot happen in a run of so many steps."""
    role, rank = fault.target_process(system)
    count = {"worker": topology.workers, "server": topology.servers}.get(role, 1)
    if rank >= count:
        raise UserError("rank", rank, f"below {count}, the processes of the role {role}")
    if fault.at_step >= steps:
        raise UserError("at_step", fault.at_step, f"below the {steps} steps of a worker")
    if fault.kind == "disconnect" and not topology.is_emulated:
        raise UserError("kind", "disconnect", "other kinds: only emulated hosts have a link to cut")
