"""Errors that are caught: mistakes of the user, failed runs and notebooks, lost hosts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class UserError(ValueError):
    """A mistake that the user can correct; the command line prints it without a traceback.

    A ``ValueError``, so that validators of pydantic can raise it and the path of the field is
    put before it.

    Parameters
    ----------
    field
        The setting, argument or file that is wrong, written as the user writes it.
    value
        The value of the field.
    allowed
        A sentence, or the permitted values.
    """

    def __init__(self, field: str, value: object, allowed: str | Iterable[str]) -> None:
        self.field = field
        self.value = value
        self.allowed = allowed if isinstance(allowed, str) else "one of " + ", ".join(allowed)
        super().__init__(f"{self.field}: {self.value!r} is not possible; allowed: {self.allowed}")


class MissingFramework(UserError):
    """A framework that the study names is not installed."""

    def __init__(self, framework: str) -> None:
        super().__init__("framework", framework, "an installed framework (run `make env`)")
        self.framework = framework


class RunFailed(Exception):
    """A run that failed, with the reason in a sentence."""


class HostLost(RunFailed):
    """A host of a run does not answer any more, or refuses what it was asked for."""


class ConnectionRefused(Exception):
    """The other end of a connection is not who it has to be, or does not speak the protocol."""


class NotebookFailed(Exception):
    """A cell of a notebook raised; the notebook is saved with its error.

    Attributes
    ----------
    error
        The name of the exception.
    """

    def __init__(self, path: Path, error: str, message: str) -> None:
        self.path = path
        self.error = error
        self.message = message
        text = message if error == "UserError" else f"{error}: {message}"
        super().__init__(f"{text} (the notebook is saved as {path})")
