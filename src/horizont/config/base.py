"""The base of all configuration models, and their errors as sentences for the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from horizont.errors import UserError

Model = TypeVar("Model", bound="ConfigModel")


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
        return values

    def check_defaults(self, where: str) -> None:
        """Refuse a field with another value than its default; `where` completes the sentence."""
        for field, value in self.model_dump(exclude_defaults=True).items():
            raise UserError(field, value, f"{type(self).model_fields[field].default} {where}")


@contextmanager
def error_context(field: str) -> Iterator[None]:
    """Prefix the field of a user error."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{field}.{error.field}", error.value, error.allowed) from None


def parse_config(model: type[Model], values: Any, field_prefix: str = "") -> Model:
    """Build a model from plain values, such as those of a YAML or JSON file.

    The message for a wrong field has its path after `field_prefix`, the path of `values`.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
    path = [field_prefix, *map(str, first["loc"])]
    cause = first.get("ctx", {}).get("error")
    if not isinstance(cause, UserError):
        cause = UserError("", first.get("input"), first["msg"].removeprefix("Input should be "))
    field = ".".join(filter(None, [*path, cause.field]))
    raise UserError(field, cause.value, cause.allowed)
