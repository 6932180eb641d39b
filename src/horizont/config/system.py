"""Systems: the registry of frameworks, and a framework with a way to synchronise its workers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Literal, TypeVar, cast

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel, parse_config
from horizont.config.framework import (
    FLOAT32_BITS,
    Device,
    FrameworkInfo,
    ReaderInfo,
    SystemInfo,
    VariantInfo,
)
from horizont.config.interpreters import (
    COMMON_PACKAGES,
    CudaDevices,
    Interpreter,
    interpreter_path,
    interpreter_variable,
    query_devices,
    query_interpreter,
)
from horizont.errors import UserError

#: The frameworks and their packages, in the order of tables and figures. Each package has a module
#: ``info`` with its `FrameworkInfo` as ``INFO``, and a module ``adapter`` that loads the framework.
FRAMEWORKS: dict[str, str] = {
    "tensorflow": "horizont.frameworks.tensorflow",
    "pytorch": "horizont.frameworks.torch",
    "mxnet": "horizont.frameworks.mxnet",
    "jax": "horizont.frameworks.jax",
}

#: The variant of a system that names none: the framework as its documentation uses it.
DEFAULT = "default"

Info = TypeVar("Info", bound=ConfigModel)


class _InfoTable(Mapping[str, Info]):
    """A read-only view of the infos of all frameworks, which follows changes of the registry."""

    def __init__(self, build: Callable[[], dict[str, Info]]) -> None:
        self._build = build

    def __getitem__(self, name: str) -> Info:
        return self._build()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._build())

    def __len__(self) -> int:
        return len(self._build())


def framework_info(framework: str) -> FrameworkInfo:
    """Return the information about a framework, which is not loaded; refuse an unknown one."""
    if framework not in FRAMEWORKS:
        raise UserError("framework", framework, FRAMEWORKS)
    return cast(FrameworkInfo, import_module(f"{FRAMEWORKS[framework]}.info").INFO)


def _systems() -> dict[str, SystemInfo]:
    systems = [
        (f"{framework}/{name}", info)
        for framework in FRAMEWORKS
        for name, info in framework_info(framework).systems.items()
    ]
    return dict(sorted(systems, key=lambda item: not item[0].endswith("/local")))


#: All systems by name, without variants; those of a single process first.
SYSTEMS: Mapping[str, SystemInfo] = _InfoTable(_systems)

#: The readers of all frameworks by name.
READERS: Mapping[str, ReaderInfo] = _InfoTable(
    lambda: {
        name: info
        for framework in FRAMEWORKS
        for name, info in framework_info(framework).readers.items()
    }
)


def framework_python(framework: str) -> str:
    """Return the path of the interpreter that starts the workers of a framework."""
    return interpreter_path(framework, framework_info(framework))


def framework_interpreter(framework: str) -> Interpreter | None:
    """Return what a framework's interpreter has installed; None if it cannot be started."""
    info = framework_info(framework)
    packages = {package for system in info.systems.values() for package in system.packages}
    return query_interpreter(framework_python(framework), (*info.distributions, *sorted(packages)))


def installed_version(framework: str) -> str | None:
    """Return the version of a framework that its interpreter would load; None if there is none."""
    interpreter = framework_interpreter(framework)
    packages = interpreter.packages if interpreter else {}
    names = framework_info(framework).distributions
    return next((packages[name] for name in names if name in packages), None)


def unusable_reason(framework: str) -> str:
    """Return why no worker of a framework can be started; empty if one can."""
    interpreter = framework_interpreter(framework)
    if interpreter is None or installed_version(framework) is None:
        variable = interpreter_variable(framework)
        named = os.environ.get(variable, "")
        return f"{framework} is not installed" + (f" in {named} ({variable})" if named else "")
    missing = [name for name in COMMON_PACKAGES if name not in interpreter.packages]
    if missing:
        return f"{framework}: its environment lacks {', '.join(missing)}"
    return ""


def framework_devices(framework: str) -> CudaDevices:
    """Return the CUDA devices that a framework can use in its environment."""
    query = framework_info(framework).device_query
    return query_devices(framework_python(framework), query) if query else CudaDevices()


def qualified_name(name: str, variant: str) -> str:
    """Return the name of a framework or a system with its variant, if it is not the default."""
    return name if variant == DEFAULT else f"{name}+{variant}"


def trainer_name(framework: str, variant: str, device: Device) -> str:
    """Return the name of what a certificate compares: `<framework>+<variant>+<device>`.

    The default variant and the CPU have no part in it.
    """
    name = qualified_name(framework, variant)
    return name if device == "cpu" else f"{name}+{device}"


def parse_trainer_name(name: str) -> tuple[str, str, Device]:
    """Return framework, variant and device of such a name."""
    framework, *parts = name.split("+")
    device: Device = "cuda" if "cuda" in parts else "cpu"
    return framework, next((part for part in parts if part != device), DEFAULT), device


def variant_info(framework: str, variant: str) -> VariantInfo:
    """Return the information about a variant; the default one has an empty mechanism."""
    if variant == DEFAULT:
        return VariantInfo(mechanism="", systems=tuple(framework_info(framework).systems))
    return framework_info(framework).variants[variant]


def float32_rounding(trainer: str) -> float:
    """Return the rounding of a trainer's float32 products, in units of that of float32.

    It is 1 for an unknown trainer: a certificate may be of a framework that is not registered here.
    """
    framework, variant, _ = parse_trainer_name(trainer)
    variants = framework_info(framework).variants if framework in FRAMEWORKS else {}
    bits = variants[variant].float32_bits if variant in variants else FLOAT32_BITS
    return float(2 ** (FLOAT32_BITS - bits))


def compiler_command() -> str:
    """Return the command of the C++ compiler: ``g++``, unless the variable CXX names another."""
    return os.environ.get("CXX", "g++")


def has_compiler() -> bool:
    """Whether the C++ compiler is found."""
    return shutil.which(compiler_command()) is not None


class System(ConfigModel):
    """A framework with its synchronisation, architecture and variant."""

    framework: str
    sync: Literal["local", "sync", "async"]
    architecture: Literal["single", "allreduce", "mpi", "parameter_server"]
    variant: str = DEFAULT

    @property
    def name(self) -> str:
        """The name in settings and tables: `<framework>/sync/allreduce+<variant>`."""
        return qualified_name(self.base_name, self.variant)

    @property
    def base_name(self) -> str:
        """The name without the variant, a key of `SYSTEMS`."""
        parts = [self.framework, self.sync]
        return "/".join(parts if self.sync == "local" else [*parts, self.architecture])

    @property
    def slug(self) -> str:
        """The name as a part of a path."""
        return self.name.replace("/", "-").replace("_", "-").replace("+", "-")

    @property
    def mechanism(self) -> str:
        """The mechanisms of the system and of its variant."""
        return "; ".join(filter(None, [self.info.mechanism, self.variant_info.mechanism]))

    @property
    def info(self) -> SystemInfo:
        """The information about the system without its variant."""
        return SYSTEMS[self.base_name]

    @property
    def variant_info(self) -> VariantInfo:
        """The information about the variant."""
        return variant_info(self.framework, self.variant)

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices on which its workers can compute in its variant."""
        return tuple(name for name in self.info.devices if name in self.variant_info.devices)

    @property
    def is_local(self) -> bool:
        """Whether a single process trains."""
        return self.sync == "local"

    @property
    def is_ring(self) -> bool:
        """Whether the workers average gradients by a ring."""
        return self.architecture in ("allreduce", "mpi")

    @property
    def package_versions(self) -> dict[str, str]:
        """The installed ones of the packages that the system needs besides its framework."""
        interpreter = framework_interpreter(self.framework)
        installed = interpreter.packages if interpreter else {}
        return {name: installed[name] for name in self.info.packages if name in installed}

    @model_validator(mode="after")
    def _check_exists(self) -> System:
        if self.base_name not in SYSTEMS:
            raise UserError("system", self.base_name, SYSTEMS)
        variants = framework_info(self.framework).variants
        if self.variant not in (DEFAULT, *variants):
            known = [f"{self.base_name}+{variant}" for variant in sorted(variants)]
            raise UserError("system", self.name, [self.base_name, *known])
        systems = self.variant_info.systems
        if self.base_name.partition("/")[2] not in systems:
            able = [f"{self.framework}/{name}+{self.variant}" for name in systems]
            raise UserError("system", self.name, able)
        return self


def parse_system(name: str, field: str = "system") -> System:
    """Parse the name of a system, with or without a variant after a plus sign; refuse others.

    The message for a wrong name begins with the field that has it.
    """
    base_name, plus, variant = name.partition("+")
    framework, sync, architecture = [*base_name.split("/"), "single", ""][:3]
    if base_name not in SYSTEMS:
        related = [known for known in SYSTEMS if known.startswith(f"{framework}/")]
        raise UserError(field, name, related or SYSTEMS)
    if plus and variant in ("", DEFAULT):  # a system has one name only
        raise UserError(field, name, base_name)
    values = {"framework": framework, "sync": sync, "architecture": architecture}
    try:
        return parse_config(System, {**values, "variant": variant or DEFAULT})
    except UserError as error:
        raise UserError(field, error.value, error.allowed) from None


def all_systems() -> tuple[str, ...]:
    """Return the names of all systems, each followed by its variants."""
    names = []
    for base_name in SYSTEMS:
        framework, _, system = base_name.partition("/")
        variants = framework_info(framework).variants.items()
        names += [base_name]
        names += [f"{base_name}+{variant}" for variant, info in variants if system in info.systems]
    return tuple(names)


class GradientExchange(ConfigModel):
    """What workers exchange, and how often.

    With one local step, gradients are averaged at every step. With more (local SGD), each worker
    makes so many steps on its own, after which the weights are averaged.
    """

    local_steps: int = Field(default=1, ge=1)
    compression: Literal["none", "float16"] = "none"

    @model_validator(mode="after")
    def _check_consistency(self) -> GradientExchange:
        if self.local_steps > 1 and self.compression != "none":
            raise UserError("compression", self.compression, "none with more than one local step")
        return self
