"""The base of all configuration models, and their errors as sentences for the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import UnionType
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from horizont.errors import UserError

Model = TypeVar("Model", bound="ConfigModel")


class ConfigModel(BaseModel):
    """An immutable model that accepts no unknown keys.

    Attributes
    ----------
    RENAMED
        Keys of earlier versions, each with the key that replaced it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    RENAMED: ClassVar[Mapping[str, str]] = {}


@contextmanager
def error_context(field: str) -> Iterator[None]:
    """Prefix the field of a user error."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{field}.{error.field}", error.value, error.allowed) from None


def parse_config(model: type[Model], values: Any, field_prefix: str = "") -> Model:
    """Build a model from plain values, such as those of a YAML or JSON file.

    Parameters
    ----------
    field_prefix
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
    """Convert one of pydantic's errors: a renamed key before all others, else the first."""
    errors = error.errors()
    first = next((each for each in errors if _new_key(model, each["loc"])), errors[0])
    field = ".".join(filter(None, [field_prefix, *map(str, first["loc"])]))
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, UserError):
        return UserError(f"{field}.{cause.field}".lstrip("."), cause.value, cause.allowed)
    if first["type"] == "extra_forbidden":
        if new_key := _new_key(model, first["loc"]):
            return UserError(field, first["loc"][-1], f"{new_key}, the new name of this setting")
        owner = _model_at(model, first["loc"][:-1])
        known = sorted(owner.model_fields) if owner else ["the keys of the documentation"]
        return UserError(field, first["loc"][-1], known)
    return UserError(field, first.get("input"), first["msg"].removeprefix("Input should be "))


def _new_key(model: type[ConfigModel], path: tuple[int | str, ...]) -> str | None:
    """Return what replaced the key at `path`, if it is one of an earlier version."""
    owner = _model_at(model, path[:-1]) if path else None
    return owner.RENAMED.get(str(path[-1])) if owner else None


def _model_at(model: type[ConfigModel], path: tuple[int | str, ...]) -> type[ConfigModel] | None:
    """Return the model whose keys are at `path`."""
    owner: Any = model
    for part in path:
        if _is_model(owner) and part in owner.model_fields:
            owner = owner.model_fields[part].annotation
            if isinstance(owner, UnionType):  # `Model | None`
                owner = next(filter(_is_model, owner.__args__), None)
        else:  # a key of a mapping, or an index
            owner = next(filter(_is_model, getattr(owner, "__args__", ())), None)
    return owner if _is_model(owner) else None


def _is_model(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, ConfigModel)
