"""The one class for a user's mistake; caught once, in the command line."""

from __future__ import annotations

from collections.abc import Iterable


class UserError(ValueError):
    """A mistake that the user can mend: which field, what it held, what is allowed.

    A ``ValueError``, so that a specification's own checks can raise it and the path of the
    field is put before it.

    Parameters
    ----------
    field
        The setting, argument or file that is wrong, written as the user writes it.
    value
        What was found there.
    allowed
        What may stand there: a sentence, or the permitted values.
    """

    def __init__(self, field: str, value: object, allowed: str | Iterable[str]) -> None:
        self.field = field
        self.value = value
        self.allowed = allowed if isinstance(allowed, str) else "one of " + ", ".join(allowed)
        super().__init__(f"{self.field}: {self.value!r} is not possible; allowed: {self.allowed}")


class MissingFramework(UserError):
    """A framework that the study names is not installed here."""

    def __init__(self, framework: str) -> None:
        super().__init__("framework", framework, "an installed framework (run `make env`)")
        self.framework = framework
