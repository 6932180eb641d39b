"""The environments of published packages, which `make pairs` makes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

_FOLDER = Path(__file__).parents[2] / ".venv" / "pairs"

#: Programs that stand for the interpreters of environments, by their names.
servers: dict[str, Path] = {}


def python_of(name: str) -> Path:
    """Return the interpreter of an environment, which need not exist."""
    return Path(os.environ.get("HORIZONT_PAIRS", _FOLDER)) / name / "bin" / "python"


def interpreter(name: str) -> str:
    """Return the interpreter of an environment, or a program that stands for it."""
    if not python_of(name).exists():
        pytest.skip(f"no environment {name}: run `make pairs`")
    return str(servers.get(name, python_of(name)))


def answers(name: str, program: Path, *arguments: Any) -> list[Any]:
    """Run a program in an environment, and return the list that it prints at last."""
    command = [interpreter(name), str(program), *(json.dumps(each) for each in arguments)]
    lines = subprocess.check_output(command, text=True).splitlines()
    return list(json.loads(lines[-1]))
