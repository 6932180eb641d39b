"""The systems: framework, synchronisation and architecture, and what each of them needs.

This table is the one place that says which systems exist. It is data: reading it loads no
framework, so planning, analysis and the command line work where none is installed.
"""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from horizont.errors import UserError
from horizont.spec.base import Frozen
from horizont.spec.build import BUILDS, PLAIN, Build, check_build, trainer_name

Sync = Literal["local", "sync", "async"]
Architecture = Literal["single", "allreduce", "parameter_server"]
RoleName = Literal["worker", "server", "scheduler", "chief"]


class SystemTraits(Frozen):
    """What a system consists of and what it lets us see.

    Attributes
    ----------
    means
        The framework's own name for the mechanism.
    extra_roles
        The roles beside the workers, each with one process unless it is "server".
    passive_roles
        Roles that serve until they are ended; the run is over without them.
    measures
        Phases that the framework lets us measure apart; the others stay empty.
    note
        What a reader of the times must know.
    shows_updates
        Whether each update that a server applies can be recorded.
    weights_on
        The roles that hold the weights between two steps: each worker all of them, each server
        its part.
    """

    means: str
    extra_roles: tuple[RoleName, ...] = ()
    passive_roles: tuple[RoleName, ...] = ()
    measures: tuple[str, ...] = ("load", "forward", "backward", "update")
    note: str = ""
    shows_updates: bool = False
    weights_on: tuple[RoleName, ...] = ("worker",)


class System(Frozen):
    """A framework with a way of synchronising, an architecture, and a way to build networks."""

    framework: str
    sync: Sync
    architecture: Architecture
    build: Build = PLAIN

    @property
    def name(self) -> str:
        """The name in tables and settings: `pytorch/sync/allreduce`, `pytorch/local+compiled`."""
        return trainer_name(self.plain_name, self.build)

    @property
    def plain_name(self) -> str:
        """The name without the build: the system in the table of systems."""
        parts = [self.framework, self.sync]
        return "/".join(parts if self.sync == "local" else [*parts, self.architecture])

    @property
    def trainer(self) -> str:
        """The framework with its build, of which sameness is proven: `pytorch+compiled`."""
        return trainer_name(self.framework, self.build)

    @property
    def slug(self) -> str:
        """The name as a part of a path."""
        return self.name.replace("/", "-").replace("_", "-").replace("+", "-")

    @property
    def means(self) -> str:
        """The mechanism, with that of the build."""
        own = self.traits.means
        return own if self.build == PLAIN else f"{own}; {BUILDS[self.build].means}"

    @property
    def traits(self) -> SystemTraits:
        """What the system consists of."""
        return SYSTEMS[self.plain_name]

    @property
    def is_local(self) -> bool:
        """Whether one process trains alone."""
        return self.sync == "local"

    @model_validator(mode="after")
    def _exists(self) -> System:
        if self.plain_name not in SYSTEMS:
            raise UserError("system", self.plain_name, SYSTEMS)
        check_build(self.plain_name, self.build)
        return self


SYSTEMS: dict[str, SystemTraits] = {
    "tensorflow/local": SystemTraits(means="tf.function"),
    "pytorch/local": SystemTraits(means="eager"),
    "mxnet/local": SystemTraits(means="Gluon, hybridized"),
    "tensorflow/sync/allreduce": SystemTraits(
        means="MultiWorkerMirroredStrategy, ring",
        measures=("load", "forward", "backward", "waiting", "communication", "update"),
    ),
    "tensorflow/async/parameter_server": SystemTraits(
        means="ParameterServerStrategy",
        extra_roles=("chief", "server"),
        passive_roles=("worker", "server"),
        measures=("load", "forward", "backward", "communication"),
        note="communication holds the pull of the weights and the push with the server's update",
        weights_on=("server",),
    ),
    "pytorch/sync/allreduce": SystemTraits(
        means="DistributedDataParallel, gloo",
        measures=("load", "forward", "backward", "waiting", "communication", "update"),
    ),
    "pytorch/sync/parameter_server": SystemTraits(
        means="torch.distributed send and receive, gloo",
        extra_roles=("server",),
        passive_roles=("server",),
        measures=("load", "forward", "backward", "waiting", "communication"),
        note="communication holds the server's update",
        weights_on=("server", "worker"),
    ),
    "pytorch/async/parameter_server": SystemTraits(
        means="torch.distributed send and receive, gloo",
        extra_roles=("server",),
        passive_roles=("server",),
        measures=("load", "forward", "backward", "communication"),
        note="communication holds the server's update, and waiting for it behind other workers'",
        shows_updates=True,
        weights_on=("server", "worker"),
    ),
    "mxnet/sync/parameter_server": SystemTraits(
        means="KVStore dist_sync",
        extra_roles=("scheduler", "server"),
        passive_roles=("scheduler", "server"),
        measures=("load", "forward", "backward", "waiting", "communication"),
        note="communication holds the server's update",
        weights_on=("server", "worker"),
    ),
    "mxnet/async/parameter_server": SystemTraits(
        means="KVStore dist_async",
        extra_roles=("scheduler", "server"),
        passive_roles=("scheduler", "server"),
        measures=("load", "forward", "backward", "communication"),
        note="communication holds the server's update",
        shows_updates=True,
        weights_on=("server", "worker"),
    ),
}


def parse_system(name: str) -> System:
    """Read a system from its name, with its build if it has one behind a plus.

    Raises
    ------
    UserError
        If there is no such system, or it has no such build.
    """
    plain, plus, build = name.partition("+")
    if plain not in SYSTEMS:
        raise UserError("system", name, SYSTEMS)
    if plus and build in ("", PLAIN):  # one name for one system
        raise UserError("system", name, plain)
    check_build(plain, build or PLAIN)
    framework, sync, *rest = plain.split("/")
    return System.model_validate(
        {
            "framework": framework,
            "sync": sync,
            "architecture": rest[0] if rest else "single",
            "build": build or PLAIN,
        }
    )


def all_systems() -> tuple[str, ...]:
    """List the names of all systems, each followed by its builds."""
    return tuple(
        name
        for plain in SYSTEMS
        for name in (
            plain,
            *(f"{plain}+{build}" for build in BUILDS if plain in BUILDS[build].systems),
        )
    )
