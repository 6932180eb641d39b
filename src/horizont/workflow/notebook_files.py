"""Committed notebooks: without outputs, and without traces of the machine that ran them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: The kernel of the laboratory. Notebooks in `kernels` have that of their framework.
LABORATORY_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def strip_notebook(notebook: dict[str, Any], path: Path) -> None:
    """Remove outputs, execution counts and metadata from a notebook, in place."""
    is_of_framework = path.parent.name == "kernels"
    kernel = notebook["metadata"]["kernelspec"] if is_of_framework else LABORATORY_KERNEL
    notebook["metadata"] = {"kernelspec": kernel}  # the rest describes the machine that ran it
    for cell in notebook["cells"]:
        cell["metadata"] = {k: v for k, v in cell["metadata"].items() if k == "tags"}
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
