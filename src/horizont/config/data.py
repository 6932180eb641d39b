"""Where data sets come from: official ones, stand-ins, and those of the user."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel, Title
from horizont.errors import UserError

DataSource = Literal["synthetic", "available", "real"]

_NAME = re.compile(r"[a-z0-9]+([-_][a-z0-9]+)*")


class OwnDataset(ConfigModel):
    """A data set of the user: images in a folder for each class, or a text.

    Attributes
    ----------
    path
        The folder, or the file of a text; by default ``data/own/NAME``.
    title, licence, citation
        For the page of the data set.
    size, channels
        Of the prepared images, in pixels; 3 channels are colours, 1 is grey.
    test_fraction
        Part of each class that is tested, unless the folder has ``train`` and ``test``. Of a text,
        the last part of its lines; as many before them validate.
    words
        Largest vocabulary of a text. Rarer words become ``<unk>``.
    """

    kind: Literal["image", "text"]
    path: Path | None = None
    title: Title = ""
    licence: str = ""
    citation: str = ""
    size: int = Field(default=32, ge=8, le=512)
    channels: Literal[1, 3] = 3
    test_fraction: float = Field(default=0.1, gt=0, lt=0.5)
    words: int = Field(default=10_000, ge=10)

    @model_validator(mode="after")
    def _check_kind(self) -> OwnDataset:
        of_other_kind = ("size", "channels") if self.kind == "text" else ("words",)
        for field in of_other_kind:
            if field in self.model_fields_set:
                raise UserError(field, getattr(self, field), f"nothing for kind {self.kind}")
        return self


class DataConfig(ConfigModel):
    """Where the data sets come from, and how much of them is used; see ``docs/settings.md``."""

    source: DataSource = "available"
    mirror: Path | None = None
    train_examples: int | None = Field(default=None, ge=1)
    test_examples: int | None = Field(default=None, ge=1)
    own: dict[str, OwnDataset] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_names(self) -> DataConfig:
        for name in self.own:
            if not _NAME.fullmatch(name):
                allowed = (
                    "a name of lower-case letters and digits, joined by hyphens or underscores"
                )
                raise UserError("own", name, allowed)
        return self
