"""Errors that are caught, and the exit statuses of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from horizont.wording import in_yaml, suggestion

#: Exit statuses beside 0: something failed, a mistake of the user, Ctrl-C.
FAILED, USER_ERROR, INTERRUPTED = 1, 2, 130

#: Characters of a value in a message.
_LONGEST_VALUE = 200


class Problem(str):
    """What is wrong with something that has no value to show, such as a file that is damaged."""

    __slots__ = ()


class UserError(ValueError):
    """A mistake that the user can correct; the command line prints it without a traceback.

    A ``ValueError``, so that validators of pydantic can raise it and the path of the field is
    put before it.

    Parameters
    ----------
    field
        The setting, argument or file that is wrong, written as the user writes it.
    value
        The value of the field, or a `Problem`.
    allowed
        A sentence, or the permitted values; one that is spelled nearly like `value` is suggested.
    """

    def __init__(self, field: str, value: object, allowed: str | Iterable[str]) -> None:
        self.field = field
        self.value = value
        if not isinstance(allowed, str):
            names = list(allowed)
            one_of = f"one of {', '.join(names)}{suggestion(value, names)}"
            allowed = one_of if names else "none"
        self.allowed = allowed
        if isinstance(value, Problem):
            super().__init__(f"{field}: {value}; needed: {allowed}")
            return
        shown = in_yaml(value)
        if len(shown) > _LONGEST_VALUE:
            shown = f"{shown[:_LONGEST_VALUE]}..."
        super().__init__(f"{field}: {shown} is not possible; allowed: {allowed}")


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
