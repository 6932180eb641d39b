"""Notebooks in git have no outputs: ``--check`` lists those that have, ``--strip`` removes them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"

#: The kernel of the laboratory. Notebooks in `kernels` have that of their framework.
LABORATORY = {"display_name": "Python 3", "language": "python", "name": "python3"}


def main(words: list[str]) -> int:
    """Check or strip all notebooks."""
    if words not in (["--check"], ["--strip"]):
        print("error: use --check or --strip", file=sys.stderr)
        return 2
    dirty = [path for path in sorted(NOTEBOOKS.rglob("*.ipynb")) if _stripped(path) != _text(path)]
    for path in dirty:
        if words == ["--strip"]:
            path.write_text(_stripped(path), encoding="utf-8")
        else:
            print(f"{path.name} holds outputs or traces of a run; `make format` strips it")
    return int(bool(dirty) and words == ["--check"])


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _stripped(path: Path) -> str:
    notebook: dict[str, Any] = json.loads(_text(path))
    kernel = LABORATORY
    if path.parent.name == "kernels":
        kernel = notebook["metadata"]["kernelspec"]
    notebook["metadata"] = {"kernelspec": kernel}  # the rest describes the machine that ran it
    for cell in notebook["cells"]:
        cell["metadata"] = {k: v for k, v in cell["metadata"].items() if k == "tags"}
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
