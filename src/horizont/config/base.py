"""The base of every specification, and the way a wrong one becomes a plain sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from horizont.errors import UserError

Model = TypeVar("Model", bound="ConfigModel")


class ConfigModel(BaseModel):
    """A specification: immutable, and closed to keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@contextmanager
def error_context(field: str) -> Iterator[None]:
    """Put the name of a field before what is wrong inside it."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{field}.{error.field}", error.value, error.allowed) from None


def parse_config(model: type[Model], values: Any, field_prefix: str = "") -> Model:
    """Build `model` from plain values.

    Parameters
    ----------
    model
        The specification to build.
    values
        What a YAML or JSON file held.
    where
        The path of `values` in its file, put before the field in messages.

    Raises
    ------
    UserError
        With the path of the first wrong field, its value, and what is allowed.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _to_user_error(model, error, field_prefix) from None


def _to_user_error(
    model: type[ConfigModel], error: ValidationError, field_prefix: str
) -> UserError:
    """Turn the first of pydantic's findings into a sentence for the user."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, UserError):
        field = ".".join(filter(None, [field_prefix, *map(str, first["loc"]), cause.field]))
        return UserError(field, cause.value, cause.allowed)
    field = ".".join(filter(None, [field_prefix, *map(str, first["loc"])]))
    if first["type"] == "extra_forbidden":
        owner = _model_at(model, first["loc"][:-1])
        known = sorted(owner.model_fields) if owner else ["the keys of the documentation"]
        return UserError(field, first["loc"][-1], known)
    return UserError(field, first.get("input"), first["msg"].removeprefix("Input should be "))


def _model_at(model: type[ConfigModel], path: tuple[Any, ...]) -> type[ConfigModel] | None:
    """Find the model that owns the keys at `path`, to name what it knows."""
    owner: Any = model
    for part in path:
        if (
            isinstance(owner, type)
            and issubclass(owner, ConfigModel)
            and part in owner.model_fields
        ):
            owner = owner.model_fields[part].annotation
        else:
            arguments = getattr(owner, "__args__", ())
            owner = arguments[-1] if arguments else None
    return owner if isinstance(owner, type) and issubclass(owner, ConfigModel) else None
