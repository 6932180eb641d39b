"""The frameworks behind one protocol. Importing this package loads none of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from horizont.errors import MissingFramework

if TYPE_CHECKING:
    from horizont.frameworks.base import FrameworkAdapter


def load_adapter(framework: str) -> FrameworkAdapter:
    """Load a framework. A process loads one at most: two in one process interfere.

    One that is not registered is a `UserError`, one that is not installed a `MissingFramework`.
    """
    # Imported here, as every import of an ``info`` module runs this file.
    from horizont.config.system import FRAMEWORKS, installed_version

    if installed_version(framework) is None:
        raise MissingFramework(framework)
    return cast("FrameworkAdapter", import_module(f"{FRAMEWORKS[framework]}.adapter").ADAPTER)
