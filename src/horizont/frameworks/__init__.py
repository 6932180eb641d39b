"""The frameworks behind one protocol. Importing this package loads none of them."""

from __future__ import annotations

import atexit
import gc
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
    # Frameworks are hundreds of thousands of objects, none of them garbage. To visit them at
    # import and again at exit takes two fifths of the time of a process that does nothing else.
    gc.disable()
    try:
        module = import_module(f"{FRAMEWORKS[framework]}.adapter")
    finally:
        gc.enable()
    atexit.register(gc.freeze)
    return cast("FrameworkAdapter", module.ADAPTER)
