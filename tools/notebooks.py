"""Notebooks in git have no outputs: ``--check`` lists those that have, ``--strip`` removes them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from horizont.workflow.notebook_files import strip_notebook

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


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
    notebook = json.loads(_text(path))
    strip_notebook(notebook, path)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
