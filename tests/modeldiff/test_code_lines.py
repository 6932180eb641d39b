"""The line of code that creates a layer is one of the model, and none of the framework."""

from __future__ import annotations

import copy
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

from horizont.modeldiff.code_lines import code_of, recording_lines

FILES = {
    "frame/__init__.py": """
class Layer:
    def __init__(self):
        self.size = 1

def made_here():
    return Layer()
""",
    "framemodels.py": """
import frame

class Own(frame.Layer):
    def __init__(self):
        super().__init__()

def build():
    first = frame.Layer()
    second = frame.made_here()
    third = Own()
    return first, second, third
""",
}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """A framework, and a package of models whose name begins like that of the framework."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module("frame"), importlib.import_module("framemodels")


def test_a_layer_has_the_line_of_the_model(modules: tuple[Any, Any], tmp_path: Path) -> None:
    framework, models = modules
    arguments = inspect.getfullargspec(framework.Layer.__init__)
    with recording_lines(framework.Layer):
        layers = models.build()
        assert inspect.getfullargspec(framework.Layer.__init__) == arguments
    path, lines = tmp_path / "framemodels.py", FILES["framemodels.py"].splitlines()
    for layer, name in zip(layers, ("first", "second", "third"), strict=True):
        (number,) = (n for n, line in enumerate(lines, 1) if f"{name} =" in line)
        assert code_of(layer) == f"{path}:{number}"
        assert code_of(copy.deepcopy(layer)) == f"{path}:{number}"
    assert code_of(models.Own()) == f"{path}:4", "of its class, when nothing is recorded"
    assert code_of(None) == ""
