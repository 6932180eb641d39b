"""The builds: other ways in which a framework builds and runs the very same network.

Like the systems they are data. A system without a build is `plain`, as one would use the
framework without a thought; a build stands behind its name: `pytorch/local+compiled`.
"""

from __future__ import annotations

import os
import shutil
from typing import Literal

from pydantic import Field

from horizont.errors import UserError
from horizont.spec.base import Frozen

Build = Literal[
    "plain", "compiled", "channels_last", "xla", "eager", "onednn", "no_onednn", "dynamic_alloc"
]

PLAIN: Build = "plain"

#: What PyTorch compiles with, unless CXX names another.
COMPILER = "g++"


class BuildTraits(Frozen):
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

    means: str
    systems: tuple[str, ...]
    images_only: bool = False
    compiles: bool = False
    environment: dict[str, str] = Field(default_factory=dict)


BUILDS: dict[str, BuildTraits] = {
    "compiled": BuildTraits(
        means="torch.compile, Inductor",
        systems=("pytorch/local",),
        images_only=True,
        compiles=True,
    ),
    "channels_last": BuildTraits(
        means="memory format channels_last",
        systems=("pytorch/local", "pytorch/sync/allreduce"),
        images_only=True,
    ),
    "xla": BuildTraits(
        means="tf.function with XLA (jit_compile)",
        systems=("tensorflow/local",),
        images_only=True,
    ),
    "eager": BuildTraits(
        means="operator by operator, without tf.function",
        systems=("tensorflow/local",),
    ),
    # TensorFlow takes one of the two by itself, as the processor is.
    "onednn": BuildTraits(
        means="oneDNN's kernels",
        systems=("tensorflow/local",),
        environment={"TF_ENABLE_ONEDNN_OPTS": "1"},
    ),
    "no_onednn": BuildTraits(
        means="TensorFlow's own kernels in the place of oneDNN's",
        systems=("tensorflow/local",),
        environment={"TF_ENABLE_ONEDNN_OPTS": "0"},
    ),
    "dynamic_alloc": BuildTraits(
        means="Gluon, hybridized without static_alloc and static_shape",
        systems=("mxnet/local", "mxnet/sync/parameter_server"),
    ),
}


def trainer_name(name: str, build: str) -> str:
    """Write a build behind the name of a framework or a system; a plain one goes without."""
    return name if build == PLAIN else f"{name}+{build}"


def build_environment(build: str) -> dict[str, str]:
    """Tell the variables that a process needs for a build."""
    return {} if build == PLAIN else BUILDS[build].environment


def check_build(system: str, build: str) -> None:
    """Refuse a build that a system does not have.

    Parameters
    ----------
    system
        The name of the system without its build.
    """
    if build == PLAIN:
        return
    if build not in BUILDS:
        raise UserError(
            "system", f"{system}+{build}", f"{system}, or with a build of {sorted(BUILDS)}"
        )
    if system not in BUILDS[build].systems:
        raise UserError(
            "system", f"{system}+{build}", f"{build} with {', '.join(BUILDS[build].systems)}"
        )


def check_compiler(system: str, build: str) -> None:
    """Refuse a build that needs a C++ compiler where there is none.

    The one check here that looks at the machine: settings and records can be read anywhere.
    """
    if build == PLAIN or not BUILDS[build].compiles or has_compiler():
        return
    allowed = f"plain systems where no C++ compiler is found ({compiler()}; CXX may name another)"
    raise UserError("system", f"{system}+{build}", allowed)


def compiler() -> str:
    """Name the C++ compiler."""
    return os.environ.get("CXX", COMPILER)


def has_compiler() -> bool:
    """Tell whether there is a C++ compiler."""
    return shutil.which(compiler()) is not None
