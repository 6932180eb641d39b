"""The frameworks by name: what carries each of them, and whether it is installed.

A framework is a line here, a package under ``horizont.frameworks`` and its systems in
:mod:`horizont.spec.system`. Nothing here loads a framework.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from horizont.errors import UserError
from horizont.spec.base import Frozen


class FrameworkInfo(Frozen):
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
