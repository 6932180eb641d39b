"""Messages on values of options that are of another type."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from horizont.config.base import allowed_for
from horizont.errors import UserError


def wrong_value(error: Any) -> str:
    """Return a sentence on a value of another type than its option; empty for other mistakes."""
    cause, param = error.__cause__, getattr(error, "param", None)
    if param is None or not isinstance(cause, ValidationError):
        return ""
    first = cause.errors()[0]
    option = next((name for name in param.opts if name.startswith("--")), param.name)
    value = first["input"]
    with suppress(ValueError):
        value = float(value) if "." in value else int(value)
    return str(UserError(option, value, allowed_for(first)))
