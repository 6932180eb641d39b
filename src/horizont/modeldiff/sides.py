"""What a side of a comparison is: which model, with which arguments, in which interpreter.

A side is written ``prefix:package.module:callable``, ``prefix:path/to/file.py:callable``,
``onnx:FILE.onnx`` or ``dump:FOLDER``. A framework offers a prefix by a file
``<prefix>_recorder.py`` in its folder.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from horizont.config.interpreters import interpreter_path
from horizont.config.system import FRAMEWORKS, framework_info
from horizont.errors import UserError
from horizont.wording import suggestion

RECORDER = "_recorder.py"
DUMP = "dump"

#: Prefixes of models in files of their own, which are the name of the package that reads them and
#: the end of the names of the files.
FORMATS = ("onnx",)


@dataclass(frozen=True)
class SideSpec:
    """A side as the user writes it.

    Attributes
    ----------
    text
        As it was written.
    framework
        The name of the framework; empty for files.
    recorder
        The file that records the model in its own interpreter; None for recorded files.
    target
        What builds the model, or its file; for recorded files, their folder.
    arguments
        Keyword arguments of the builder.
    python
        The interpreter.
    """

    label: str
    text: str
    framework: str
    recorder: Path | None
    target: str
    python: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_dump(self) -> bool:
        """Whether the side is a folder of recorded files."""
        return self.recorder is None


def recorders() -> dict[str, tuple[str, Path]]:
    """Return framework and file of the recorder of each prefix."""
    here = Path(__file__).parent
    found = {name: ("", here / name / f"{name}{RECORDER}") for name in FORMATS}
    for framework, package in FRAMEWORKS.items():
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations or () if spec else ():
            for path in Path(folder).glob(f"*{RECORDER}"):
                found[path.name.removesuffix(RECORDER)] = (framework, path)
    return found


def parse_side(label: str, text: str, arguments: str = "", python: str = "") -> SideSpec:
    """Return a side from what the user wrote.

    Raises
    ------
    UserError
        If the prefix, the target, the arguments or the interpreter is not possible.
    """
    prefix, _, target = text.partition(":")
    known = recorders()
    if prefix == DUMP:
        if not Path(target, "recording.json").is_file():
            raise UserError(f"side {label}", text, "dump: and a folder with recording.json")
        return SideSpec(label, text, "", None, target, "")
    is_file = prefix in FORMATS and target.endswith(f".{prefix}")
    if prefix not in known or not (is_file or ":" in target):
        forms = ", ".join(f"{name}:module:callable" for name in sorted(known))
        files = ", ".join(f"{name}:FILE.{name}" for name in FORMATS)
        near = suggestion(f"{prefix}:", [f"{name}:" for name in (*known, DUMP)]) if target else ""
        allowed = f"{forms}, a file in the place of the module, {files}, or dump:FOLDER{near}"
        raise UserError(f"side {label}", text, allowed)
    framework, recorder = known[prefix]
    where, _, name = target.rpartition(":")
    if is_file:
        if not Path(target).is_file():
            raise UserError(f"side {label}", text, "a file that exists")
        if arguments:
            raise UserError(f"--args-{label.lower()}", arguments, f"none, {target} is a file")
        target = str(Path(target).resolve())
    elif "/" in where or Path(where).is_file() or where.endswith(".py"):
        if not where.endswith(".py") or not Path(where).is_file():
            raise UserError(f"side {label}", text, "a Python file that exists")
        target = f"{Path(where).resolve()}:{name}"
    return SideSpec(
        label, text, framework, recorder, target,
        _interpreter(label, python, framework), parse_arguments(label, arguments),
    )  # fmt: skip


def _interpreter(label: str, python: str, framework: str) -> str:
    """Return the interpreter that was named, that of the framework, or this one for a format."""
    if not python and not framework:
        return sys.executable
    if not python:
        return interpreter_path(framework, framework_info(framework))
    path = shutil.which(os.path.expanduser(python))
    if path is None:
        option = f"--python-{label.lower()}"
        raise UserError(option, python, "the path of a Python interpreter")
    return os.path.abspath(path)


def parse_arguments(label: str, text: str) -> dict[str, Any]:
    """Return the arguments in ``name=value,name=value``; values are literals of Python or text.

    A comma inside brackets or quotation marks belongs to its value.
    """
    if not text.strip():
        return {}
    option = f"--args-{label.lower()}"
    try:
        call = ast.parse(f"f({text})", mode="eval").body
    except SyntaxError as error:
        raise UserError(option, text, "name=value,name=value") from error
    if not isinstance(call, ast.Call) or call.args:
        raise UserError(option, text, "name=value,name=value")
    found = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise UserError(option, text, "name=value,name=value")
        try:
            found[keyword.arg] = ast.literal_eval(keyword.value)
        except ValueError:
            found[keyword.arg] = ast.unparse(keyword.value)
    return found
