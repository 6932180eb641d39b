"""The builds: other ways in which a framework builds and runs the very same network.

Like the systems they are data. A system without a build is `plain`, as one would use the
framework without a thought; a build stands behind its name: `pytorch/local+compiled`.
"""

from __future__ import annotations

import os
import shutil
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel
from horizont.errors import UserError

Variant = Literal[
    "none", "compiled", "channels_last", "xla", "eager", "onednn", "no_onednn", "dynamic_alloc"
]

DEFAULT: Variant = "none"

#: What PyTorch compiles with, unless CXX names another.
DEFAULT_COMPILER = "g++"


class VariantInfo(ConfigModel):
    """What a build is, and where there is one.

    Attributes
    ----------
    means
        The framework's own name for the mechanism.
    systems
        The systems that have it.
    images_only
        Whether it leaves out networks that read texts: the layout is of images, PyTorch does not
        compile its LSTM, and XLA does not keep a state whose size it does not know.
    compiles
        Whether it needs a C++ compiler on the machine.
    environment
        Variables that the framework reads while it is loaded.
    """

    mechanism: str
    systems: tuple[str, ...]
    images_only: bool = False
    needs_compiler: bool = False
    environment: dict[str, str] = Field(default_factory=dict)


VARIANTS: dict[str, VariantInfo] = {
    "compiled": VariantInfo(
        mechanism="torch.compile, Inductor",
        systems=("pytorch/local",),
        images_only=True,
        needs_compiler=True,
    ),
    "channels_last": VariantInfo(
        mechanism="memory format channels_last",
        systems=("pytorch/local", "pytorch/sync/allreduce"),
        images_only=True,
    ),
    "xla": VariantInfo(
        mechanism="tf.function with XLA (jit_compile)",
        systems=("tensorflow/local",),
        images_only=True,
    ),
    "eager": VariantInfo(
        mechanism="operator by operator, without tf.function",
        systems=("tensorflow/local",),
    ),
    # TensorFlow takes one of the two by itself, as the processor is.
    "onednn": VariantInfo(
        mechanism="oneDNN's kernels",
        systems=("tensorflow/local",),
        environment={"TF_ENABLE_ONEDNN_OPTS": "1"},
    ),
    "no_onednn": VariantInfo(
        mechanism="TensorFlow's own kernels in the place of oneDNN's",
        systems=("tensorflow/local",),
        environment={"TF_ENABLE_ONEDNN_OPTS": "0"},
    ),
    "dynamic_alloc": VariantInfo(
        mechanism="Gluon, hybridized without static_alloc and static_shape",
        systems=("mxnet/local", "mxnet/sync/parameter_server"),
    ),
}


def qualified_name(name: str, variant: str) -> str:
    """Write a build behind the name of a framework or a system; a plain one goes without."""
    return name if variant == DEFAULT else f"{name}+{variant}"


def variant_environment(variant: str) -> dict[str, str]:
    """Tell the variables that a process needs for a build."""
    return {} if variant == DEFAULT else VARIANTS[variant].environment


def check_variant(system: str, variant: str) -> None:
    """Refuse a build that a system does not have.

    Parameters
    ----------
    system
        The name of the system without its build.
    """
    if variant == DEFAULT:
        return
    if variant not in VARIANTS:
        raise UserError(
            "system", f"{system}+{variant}", f"{system}, or with a build of {sorted(VARIANTS)}"
        )
    if system not in VARIANTS[variant].systems:
        raise UserError(
            "system",
            f"{system}+{variant}",
            f"{variant} with {', '.join(VARIANTS[variant].systems)}",
        )


def check_compiler(system: str, variant: str) -> None:
    """Refuse a build that needs a C++ compiler where there is none.

    The one check here that looks at the machine: settings and records can be read anywhere.
    """
    if variant == DEFAULT or not VARIANTS[variant].needs_compiler or has_compiler():
        return
    allowed = (
        f"plain systems where no C++ compiler is found ({compiler_command()}; CXX may name another)"
    )
    raise UserError("system", f"{system}+{variant}", allowed)


def compiler_command() -> str:
    """Name the C++ compiler."""
    return os.environ.get("CXX", DEFAULT_COMPILER)


def has_compiler() -> bool:
    """Tell whether there is a C++ compiler."""
    return shutil.which(compiler_command()) is not None


class FrameworkInfo(ConfigModel):
    """Where a framework comes from.

    Attributes
    ----------
    distributions
        Names under which it may be installed; the first that is found counts.
    adapter
        The package under ``horizont.frameworks`` that speaks to it.
    """

    distributions: tuple[str, ...]
    adapter: str


FRAMEWORKS: dict[str, FrameworkInfo] = {
    "tensorflow": FrameworkInfo(
        distributions=("tensorflow-cpu", "tensorflow"), adapter="tensorflow"
    ),
    "pytorch": FrameworkInfo(distributions=("torch",), adapter="torch"),
    "mxnet": FrameworkInfo(distributions=("mxnet",), adapter="mxnet"),
}


def installed_version(framework: str) -> str | None:
    """Tell the installed version of a framework; None if it is not installed.

    Raises
    ------
    UserError
        If there is no such framework.
    """
    if framework not in FRAMEWORKS:
        raise UserError("framework", framework, sorted(FRAMEWORKS))
    for distribution in FRAMEWORKS[framework].distributions:
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return None


Sync = Literal["local", "sync", "async"]
Architecture = Literal["single", "allreduce", "parameter_server"]
RoleName = Literal["worker", "server", "scheduler", "chief"]


class SystemInfo(ConfigModel):
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

    mechanism: str
    roles: tuple[RoleName, ...] = ()
    service_roles: tuple[RoleName, ...] = ()
    phases: tuple[str, ...] = ("load", "forward", "backward", "update")
    caveat: str = ""
    records_updates: bool = False
    weight_holders: tuple[RoleName, ...] = ("worker",)


class System(ConfigModel):
    """A framework with a way of synchronising, an architecture, and a way to build networks."""

    framework: str
    sync: Sync
    architecture: Architecture
    variant: Variant = DEFAULT

    @property
    def name(self) -> str:
        """The name in tables and settings: `pytorch/sync/allreduce`, `pytorch/local+compiled`."""
        return qualified_name(self.base_name, self.variant)

    @property
    def base_name(self) -> str:
        """The name without the build: the system in the table of systems."""
        parts = [self.framework, self.sync]
        return "/".join(parts if self.sync == "local" else [*parts, self.architecture])

    @property
    def framework_variant(self) -> str:
        """The framework with its build, of which sameness is proven: `pytorch+compiled`."""
        return qualified_name(self.framework, self.variant)

    @property
    def slug(self) -> str:
        """The name as a part of a path."""
        return self.name.replace("/", "-").replace("_", "-").replace("+", "-")

    @property
    def mechanism(self) -> str:
        """The mechanism, with that of the build."""
        own = self.info.mechanism
        return own if self.variant == DEFAULT else f"{own}; {VARIANTS[self.variant].mechanism}"

    @property
    def info(self) -> SystemInfo:
        """What the system consists of."""
        return SYSTEMS[self.base_name]

    @property
    def is_local(self) -> bool:
        """Whether one process trains alone."""
        return self.sync == "local"

    @model_validator(mode="after")
    def _check_exists(self) -> System:
        if self.base_name not in SYSTEMS:
            raise UserError("system", self.base_name, SYSTEMS)
        check_variant(self.base_name, self.variant)
        return self


SYSTEMS: dict[str, SystemInfo] = {
    "tensorflow/local": SystemInfo(mechanism="tf.function"),
    "pytorch/local": SystemInfo(mechanism="eager"),
    "mxnet/local": SystemInfo(mechanism="Gluon, hybridized"),
    "tensorflow/sync/allreduce": SystemInfo(
        mechanism="MultiWorkerMirroredStrategy, ring",
        phases=("load", "forward", "backward", "waiting", "communication", "update"),
    ),
    "tensorflow/async/parameter_server": SystemInfo(
        mechanism="ParameterServerStrategy",
        roles=("chief", "server"),
        service_roles=("worker", "server"),
        phases=("load", "forward", "backward", "communication"),
        caveat="communication holds the pull of the weights and the push with the server's update",
        weight_holders=("server",),
    ),
    "pytorch/sync/allreduce": SystemInfo(
        mechanism="DistributedDataParallel, gloo",
        phases=("load", "forward", "backward", "waiting", "communication", "update"),
    ),
    "pytorch/sync/parameter_server": SystemInfo(
        mechanism="torch.distributed send and receive, gloo",
        roles=("server",),
        service_roles=("server",),
        phases=("load", "forward", "backward", "waiting", "communication"),
        caveat="communication holds the server's update",
        weight_holders=("server", "worker"),
    ),
    "pytorch/async/parameter_server": SystemInfo(
        mechanism="torch.distributed send and receive, gloo",
        roles=("server",),
        service_roles=("server",),
        phases=("load", "forward", "backward", "communication"),
        caveat="communication holds the server's update, and waiting for it behind other workers'",
        records_updates=True,
        weight_holders=("server", "worker"),
    ),
    "mxnet/sync/parameter_server": SystemInfo(
        mechanism="KVStore dist_sync",
        roles=("scheduler", "server"),
        service_roles=("scheduler", "server"),
        phases=("load", "forward", "backward", "waiting", "communication"),
        caveat="communication holds the server's update",
        weight_holders=("server", "worker"),
    ),
    "mxnet/async/parameter_server": SystemInfo(
        mechanism="KVStore dist_async",
        roles=("scheduler", "server"),
        service_roles=("scheduler", "server"),
        phases=("load", "forward", "backward", "communication"),
        caveat="communication holds the server's update",
        records_updates=True,
        weight_holders=("server", "worker"),
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
    if plus and build in ("", DEFAULT):  # one name for one system
        raise UserError("system", name, plain)
    check_variant(plain, build or DEFAULT)
    framework, sync, *rest = plain.split("/")
    return System.model_validate(
        {
            "framework": framework,
            "sync": sync,
            "architecture": rest[0] if rest else "single",
            "variant": build or DEFAULT,
        }
    )


def all_systems() -> tuple[str, ...]:
    """List the names of all systems, each followed by its builds."""
    return tuple(
        name
        for plain in SYSTEMS
        for name in (
            plain,
            *(f"{plain}+{build}" for build in VARIANTS if plain in VARIANTS[build].systems),
        )
    )


#: The one system that has these settings.
GRADIENT_EXCHANGE_SYSTEM = "pytorch/sync/allreduce"


class GradientExchange(ConfigModel):
    """What is exchanged, and how often.

    Attributes
    ----------
    average_every
        1: gradients are averaged at every step. More: local SGD; each worker makes steps of its
        own, and the weights are averaged after every so many.
    compression
        `float16`: gradients travel with 16 bits a number.
    """

    local_steps: int = Field(default=1, ge=1)
    compression: Literal["none", "float16"] = "none"

    @model_validator(mode="after")
    def _check_consistency(self) -> GradientExchange:
        if self.local_steps > 1 and self.compression != "none":
            raise UserError("compression", self.compression, "none where weights are averaged")
        return self


def check_gradient_exchange(system: System, exchange: GradientExchange) -> None:
    """Refuse settings that the system does not have."""
    if system.name == GRADIENT_EXCHANGE_SYSTEM:
        return
    for field, value in exchange.model_dump().items():
        usual = GradientExchange.model_fields[field].default
        if value != usual:
            raise UserError(f"gradient_exchange.{field}", value, f"{usual} for {system.name}")
