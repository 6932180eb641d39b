"""The frameworks behind one protocol. Importing this package loads none of them."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from horizont.config.system import FRAMEWORKS, installed_version
from horizont.errors import MissingFramework
from horizont.frameworks.base import FrameworkAdapter


def load_adapter(framework: str) -> FrameworkAdapter:
    """Load a framework. A process loads one at most: two in one process disturb each other.

    Raises
    ------
    UserError
        If there is no such framework.
    MissingFramework
        If it is not installed.
    """
    if installed_version(framework) is None:
        raise MissingFramework(framework)
    package = f"horizont.frameworks.{FRAMEWORKS[framework].adapter}"
    return cast(FrameworkAdapter, import_module(package).ADAPTER)
