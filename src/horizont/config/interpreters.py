"""The Python interpreter of each framework, and what is installed in its environment.

Frameworks need different versions of the same packages, so each can have an environment of its
own. The first of these that exists starts its workers:

1. ``python`` of its `FrameworkInfo`;
2. the variable ``HORIZONT_<FRAMEWORK>_PYTHON``, for an environment that exists already;
3. ``frameworks/<framework>`` below the prefix of the current environment, where ``make env``
   creates it;
4. the current interpreter.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from horizont.config.base import ConfigModel, Model
from horizont.config.framework import FrameworkInfo
from horizont.errors import UserError

#: The folder of the package `horizont`, for environments in which it is not installed.
SOURCE_FOLDER = Path(__file__).parents[2]

#: What a worker needs besides its framework; the versions are recorded with that of the framework.
COMMON_PACKAGES = ("numpy", "psutil", "pyarrow", "pydantic", "PyYAML")

#: The variable that lists the devices that a process may use.
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"

#: By default CUDA numbers the devices from the fastest one on.
DEVICE_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

QUERY_TIMEOUT_S = 120.0


class Interpreter(ConfigModel):
    """The version of an interpreter, and those of a framework and of `COMMON_PACKAGES`."""

    python: str
    packages: dict[str, str]


class CudaDevices(ConfigModel):
    """The models of the CUDA devices by number, and the CUDA that the framework was built with."""

    names: tuple[str, ...] = ()
    cuda: str = ""


def environment_folder(framework: str) -> Path:
    """Return where ``make env`` creates the environment of a framework."""
    return Path(sys.prefix, "frameworks", framework)


def interpreter_variable(framework: str) -> str:
    """Return the name of the variable that names the interpreter of a framework."""
    return f"HORIZONT_{framework.upper()}_PYTHON"


def interpreter_path(framework: str, info: FrameworkInfo) -> str:
    """Return the path of the interpreter of a framework; refuse a variable that names none."""
    if info.python:
        return os.path.expanduser(info.python)
    variable = interpreter_variable(framework)
    if named := os.environ.get(variable):
        path = os.path.abspath(os.path.expanduser(named))
        if not os.path.isfile(path) or not os.access(path, os.X_OK):
            raise UserError(variable, named, "the path of a Python interpreter")
        return path
    created = environment_folder(framework) / "bin" / "python"
    # A link to an interpreter that this user may not reach is an error of that environment.
    return str(created) if os.path.lexists(created) else sys.executable


def import_variables(executable: str) -> dict[str, str]:
    """Return the environment variables with which an interpreter finds Horizont."""
    if executable == sys.executable:
        return {}
    folders = filter(None, [str(SOURCE_FOLDER), os.environ.get("PYTHONPATH")])
    return {"PYTHONPATH": os.pathsep.join(folders)}


@cache  # nothing is installed while a process of Horizont runs
def query_interpreter(executable: str, distributions: tuple[str, ...]) -> Interpreter | None:
    """Return an interpreter with the versions of some packages; None if it cannot be started."""
    names = [*distributions, *COMMON_PACKAGES]
    if executable == sys.executable:
        return Interpreter.model_validate(_installed(names))
    # The source is passed, as the other environment may lack what this module imports.
    source = inspect.getsource(_installed)
    program = f"import json\n{source}\nprint(json.dumps(_installed({names})))"
    return _query(executable, program, Interpreter)


@cache  # nor is a device added
def query_devices(executable: str, program: str) -> CudaDevices:
    """Return the devices that a program prints when an interpreter runs it; none if it fails.

    The program loads a framework, which takes seconds; it is run only for a device that is asked
    for. It sees the devices that this process may use, numbered by their PCI bus as for NVML.
    """
    return _query(executable, program, CudaDevices) or CudaDevices()


def _query(executable: str, program: str, model: type[Model]) -> Model | None:
    """Parse the last line that a program prints, as JSON; None if it fails."""
    try:
        done = subprocess.run(
            [executable, "-c", program],
            capture_output=True,
            check=True,
            timeout=QUERY_TIMEOUT_S,
            env={**os.environ, **DEVICE_ORDER},
        )
        return model.model_validate_json(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def visible_device(number: int) -> str:
    """Return a device for ``CUDA_VISIBLE_DEVICES``: the n-th of those that this process may use."""
    visible = [name for name in os.environ.get(VISIBLE_DEVICES, "").split(",") if name]
    return visible[number] if number < len(visible) else str(number)


def _installed(names: list[str]) -> dict[str, object]:
    """Return the version of Python, and those of the packages that are installed."""
    import platform
    from contextlib import suppress
    from importlib.metadata import PackageNotFoundError, version

    packages = {}
    for name in names:
        with suppress(PackageNotFoundError):
            packages[name] = version(name)
    return {"python": platform.python_version(), "packages": packages}
