"""The base of all configuration models, and their errors as sentences for the user."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from horizont.errors import Problem, UserError
from horizont.wording import in_yaml

Model = TypeVar("Model", bound="ConfigModel")

#: What is allowed, by the beginning of the type of pydantic's error; the message of others stands.
_ALLOWED = {
    "missing": "a value, as this setting has no default",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "too_short": "at least {min_length} entry",
    "int_": "an integer",
    "float_": "a number",
    "bool_": "true or false",
    "string_too_long": "at most {max_length} characters",
    "string_pattern": "lower-case letters, digits, hyphens and underscores",
    "string_": "text",
    "tuple_": "a list",
    "dict_": "a mapping",
    "model_": "a mapping of settings",
    "path_": "a path",
}


class ConfigModel(BaseModel):
    """An immutable model that accepts no unknown keys."""

    model_config = ConfigDict(frozen=True)

    #: Keys of earlier versions, each with the key that replaced it.
    RENAMED: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, values: Any) -> Any:
        """Refuse unknown keys: pydantic itself would not say which ones there are."""
        if not isinstance(values, Mapping):
            return values
        known = [field.alias or name for name, field in cls.model_fields.items()]
        unknown = [key for key in values if key not in known]
        for key in unknown:
            if key in cls.RENAMED:  # before all others: the file is of an earlier version
                raise UserError(key, key, f"{cls.RENAMED[key]}, the new name of this setting")
        if unknown:
            raise UserError(str(unknown[0]), unknown[0], sorted(known))
        for name, field in cls.model_fields.items():
            value = values.get(field.alias or name)
            types = _types_in(field.annotation)
            # pydantic would convert it to 0 or 1.
            if isinstance(value, bool) and types & {int, float} and bool not in types:
                raise UserError(field.alias or name, value, "a number")
            if value == "" and Path in types:  # pydantic would use the current folder
                raise UserError(field.alias or name, value, "a path")
        return values

    def check_defaults(self, where: str) -> None:
        """Refuse a field with another value than its default; `where` completes the sentence."""
        for field, value in self.model_dump(exclude_defaults=True).items():
            raise UserError(
                field, value, f"{in_yaml(type(self).model_fields[field].default)} {where}"
            )


def _types_in(annotation: Any) -> set[Any]:
    return {annotation}.union(*map(_types_in, get_args(annotation)))


def _check_title(title: str) -> str:
    if title and (not title.strip() or title.splitlines() != [title]):
        raise UserError("", title, "one line of text")
    return title


#: A heading, which has a default if it is empty.
Title = Annotated[str, Field(max_length=100), AfterValidator(_check_title)]


def check_unique(field: str, names: Sequence[str]) -> None:
    """Refuse a list with a name twice."""
    for name in names:
        if names.count(name) > 1:
            raise UserError(field, name, "each of them once")


@contextmanager
def error_context(field: str) -> Iterator[None]:
    """Prefix the field of a user error."""
    try:
        yield
    except UserError as error:
        raise UserError(_path(field, error.field), error.value, error.allowed) from None


def parse_config(model: type[Model], values: Any, field_prefix: str = "") -> Model:
    """Build a model from plain values, such as those of a YAML or JSON file.

    The message for a wrong field has its path after `field_prefix`, the path of `values`.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if not isinstance(cause, UserError):
        # The input of a missing value is the whole mapping that lacks it.
        value = Problem("missing") if first["type"] == "missing" else first.get("input")
        cause = UserError("", value, allowed_for(first))
    raise UserError(_path(field_prefix, *first["loc"], cause.field), cause.value, cause.allowed)


def _path(*parts: str | int) -> str:
    """Return the path of a field, such as `experiments.faults.faults[0].kind`."""
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part == "[key]":  # pydantic's name for the key of a mapping, which precedes it
            continue
        elif part:
            path += f".{part}" if path and not part.startswith("[") else part
    return path


def allowed_for(error: Mapping[str, Any]) -> str | list[str]:
    """Return what would be allowed in the place of an error of pydantic."""
    context: dict[str, Any] = {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in error.get("ctx", {}).items()
    }
    if error["type"] == "literal_error":
        return re.findall(r"'([^']*)'", context["expected"]) or context["expected"]
    for prefix, allowed in _ALLOWED.items():
        if error["type"].startswith(prefix):
            return allowed.format(**context)
    message: str = error["msg"]
    return message.removeprefix("Input should be ")
