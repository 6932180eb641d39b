"""Information about a framework that does not need it loaded: the types of ``info.INFO``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from horizont.config.base import ConfigModel

#: The upper limit of `InputPipeline.prefetch`.
MAX_PREFETCH = 64

RoleName = Literal["worker", "server", "scheduler", "chief"]

#: Where a worker computes: on the CPU, or on a GPU of its own.
Device = Literal["cpu", "cuda"]

#: Bits of the mantissa of float32, with the implicit one.
FLOAT32_BITS = 24


class SystemInfo(ConfigModel):
    """Processes of a system and what can be measured of it.

    Attributes
    ----------
    mechanism
        The framework's name of what synchronises the workers.
    roles
        Roles besides the workers; one process each, and as many servers as the topology has.
    service_roles
        Roles that run until they are terminated; a run is complete without them.
    phases
        Phases of a step that the framework allows to measure separately.
    caveat
        What to know when reading the times.
    is_native
        Whether the framework provides the mechanism. Otherwise the adapter builds it from the
        framework's primitives.
    has_equal_slices
        Whether all servers hold slices of equal length, rather than whole tensors.
    sends_table_rows
        Whether only those rows of an embedding table that a batch looks up are sent.
    weight_holders
        Roles that hold weights between two steps: a worker all of them, a server its part.
    devices
        Devices on which its workers can compute.
    packages
        Packages that its workers need besides the framework.
    needs_steady_clock
        Whether it can fail if a wall clock is set while it runs.
    """

    mechanism: str
    roles: tuple[RoleName, ...] = ()
    service_roles: tuple[RoleName, ...] = ()
    phases: tuple[str, ...] = ("load", "forward", "backward", "update")
    caveat: str = ""
    is_native: bool = True
    has_gradient_exchange: bool = False
    has_equal_slices: bool = False
    sends_table_rows: bool = False
    records_updates: bool = False
    weight_holders: tuple[RoleName, ...] = ("worker",)
    devices: tuple[Device, ...] = ("cpu",)
    packages: tuple[str, ...] = ()
    needs_steady_clock: bool = False


class VariantInfo(ConfigModel):
    """Another way in which a framework builds and runs the same network.

    Attributes
    ----------
    systems
        Systems that have the variant, without the framework: `local`, `sync/allreduce`.
    environment
        Variables that the framework reads while it is loaded.
    devices
        Devices on which the variant differs from the default.
    float32_bits
        Bits of the mantissa, with the implicit one, to which its products round float32 inputs.
    tone
        The shade of the framework's colour in figures: -1 is black, 1 is white.
    fill
        The half of the framework's marker that is filled in figures.
    """

    mechanism: str
    label: str = ""
    systems: tuple[str, ...] = ()
    images_only: bool = False
    needs_compiler: bool = False
    environment: dict[str, str] = Field(default_factory=dict)
    devices: tuple[Device, ...] = ("cpu", "cuda")
    float32_bits: int = Field(default=FLOAT32_BITS, ge=1, le=FLOAT32_BITS)
    tone: float = Field(default=0.6, ge=-1, le=1)
    fill: Literal["top", "bottom", "left", "right"] = "top"


class ReaderInfo(ConfigModel):
    """A way of a framework to read examples from files.

    Attributes
    ----------
    mechanism
        The framework's classes and functions that it uses.
    ordered
        Whether it reads the examples in the requested order; otherwise in the order of the files.
    max_prefetch_inline
        The largest number of batches that it prefetches without workers.
    min_prefetch_with_workers
        The smallest number of batches that it prefetches with workers.
    cache_scope
        What its cache holds, and when it is filled.
    """

    mechanism: str
    ordered: bool = True
    workers: Literal["processes", "threads", "none"] = "none"
    max_prefetch_inline: int = 0
    min_prefetch_with_workers: int = 0
    cache_scope: str
    always_cached: bool = False


class FrameworkInfo(ConfigModel):
    """What Horizont knows about a framework without loading it.

    Attributes
    ----------
    distributions
        Names under which it may be installed; the first one is that of the lock file.
    import_names
        Top-level modules that are imported nowhere but in a worker of this framework.
    python
        The interpreter of its workers; by default that of `horizont.config.interpreters`.
    device_query
        A program for that interpreter, which prints the CUDA devices that the framework can use, as
        JSON of `horizont.config.interpreters.CudaDevices`; empty if it is used on CPUs only.
    systems
        Its systems, without the framework: `local`, `sync/allreduce`.
    readers
        Its readers of files; the first one is the default.
    """

    label: str
    distributions: tuple[str, ...] = Field(min_length=1)
    import_names: tuple[str, ...]
    python: str = ""
    device_query: str = ""
    colour: str
    marker: str
    systems: dict[str, SystemInfo]
    variants: dict[str, VariantInfo] = Field(default_factory=dict)
    readers: dict[str, ReaderInfo] = Field(default_factory=dict)
