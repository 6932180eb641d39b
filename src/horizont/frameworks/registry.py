"""The one place that loads a framework, into this process."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from horizont.errors import MissingFramework
from horizont.frameworks.base import Adapter
from horizont.spec import FRAMEWORKS, installed_version


def load_adapter(framework: str) -> Adapter:
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
    return cast(Adapter, import_module(package).ADAPTER)
