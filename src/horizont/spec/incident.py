"""Incidents: what befalls a process in the middle of a run, on purpose, to see what comes of it.

A *fault* of the comparator is a mistake in the training itself; an incident comes from outside.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from horizont.errors import UserError
from horizont.spec.base import Frozen
from horizont.spec.system import RoleName, System
from horizont.spec.topology import Topology

IncidentKind = Literal["killed", "frozen", "slowed", "cut_off", "restarted"]

#: A role, or whoever the processes of a system meet at: the chief, the scheduler, or the first
#: worker, whose store the others meet at.
Victim = Literal["worker", "server", "scheduler", "chief", "coordinator"]

#: Kinds with an end of their own: after `for_s` seconds all is as before.
PASSING: tuple[IncidentKind, ...] = ("frozen", "slowed", "cut_off", "restarted")


class Incident(Frozen):
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

    kind: IncidentKind
    role: Victim
    rank: int = Field(default=0, ge=0)
    at_step: int = Field(default=10, ge=1)
    for_s: float | None = Field(default=None, gt=0)
    share: float | None = Field(default=None, gt=0, lt=1)

    @property
    def name(self) -> str:
        """A few words: `worker 1 killed`."""
        number = "" if self.role in ("scheduler", "chief", "coordinator") else f" {self.rank}"
        lasting = f" for {self.for_s:g} s" if self.for_s else ""
        much = f" to {self.share:.0%}" if self.share else ""
        return f"{self.role}{number} {self.kind.replace('_', ' ')}{much}{lasting}"

    @model_validator(mode="after")
    def _makes_sense(self) -> Incident:
        if self.kind == "slowed" and self.share is None:
            raise UserError("share", None, "a share between 0 and 1 where the kind is slowed")
        if self.kind != "slowed" and self.share is not None:
            raise UserError("share", self.share, f"nothing where the kind is {self.kind}")
        if self.kind not in PASSING and self.for_s is not None:
            raise UserError("for_s", self.for_s, f"nothing where the kind is {self.kind}")
        if self.kind == "restarted" and self.for_s is None:
            raise UserError("for_s", None, "the seconds until it is started again")
        return self

    def seat(self, system: System) -> tuple[RoleName, int]:
        """Tell role and rank of the process that it happens to.

        Raises
        ------
        UserError
            If the system has no such role.
        """
        roles: tuple[RoleName, ...] = ("worker", *system.traits.extra_roles)
        if self.role != "coordinator":
            if self.role not in roles:
                raise UserError("role", self.role, [*roles, "coordinator"])
            return self.role, self.rank
        if system.is_local:
            raise UserError("role", self.role, "worker where one process trains alone")
        if self.rank:
            raise UserError("rank", self.rank, "0 for the coordinator")
        return next((role for role in roles if role in ("chief", "scheduler")), "worker"), 0


def suits(incident: Incident, system: System) -> bool:
    """Whether a system has the role that an incident happens to."""
    try:
        incident.seat(system)
    except UserError:
        return False
    return True


def check_incident(incident: Incident, system: System, topology: Topology, steps: int) -> None:
    """Refuse an incident that cannot happen in a run of so many steps."""
    role, rank = incident.seat(system)
    count = {"worker": topology.workers, "server": topology.servers}.get(role, 1)
    if rank >= count:
        raise UserError("rank", rank, f"below {count}, the processes of the role {role}")
    if incident.at_step >= steps:
        raise UserError("at_step", incident.at_step, f"below the {steps} steps of a worker")
    if incident.kind == "cut_off" and not topology.is_emulated:
        raise UserError("kind", "cut_off", "other kinds: only emulated hosts have a link to cut")
