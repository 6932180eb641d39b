"""A function called in the interpreter of a framework, and the files that carry the call.

``python -m horizont_textbook.framework_call`` reads the call from its working folder and writes the
results there. JSON and ``.npz`` can be read by every version of Python and NumPy; pickles cannot.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from horizont.records.files import write_arrays
from horizont_textbook import Array

CALL_FILE, RESULTS_FILE = "call.json", "results.npz"

#: Arrays by group, such as a case or an exercise, and by name.
Results = dict[str, dict[str, Array]]

#: Between group and name in the file; no group contains it.
_SEPARATOR = "|"


def write_call(folder: Path, function: str, arguments: dict[str, Any]) -> None:
    """Write what a process is to call.

    Parameters
    ----------
    function
        ``module:name`` of a function that returns `Results`.
    arguments
        Its keyword arguments, of types that JSON has; arrays are passed as lists.
    """
    call = {"function": function, "arguments": arguments}
    text = json.dumps(call, default=lambda array: array.tolist())
    (folder / CALL_FILE).write_text(text, encoding="utf-8")


def read_results(file: Path) -> Results:
    """Read what a process wrote."""
    results: Results = {}
    with np.load(file) as arrays:
        for key, array in arrays.items():
            group, _, name = key.partition(_SEPARATOR)
            results.setdefault(group, {})[name] = array
    return results


def main() -> None:
    """Make the call in this process."""
    call = json.loads(Path(CALL_FILE).read_text(encoding="utf-8"))
    module, _, name = call["function"].partition(":")
    results: Results = getattr(import_module(module), name)(**call["arguments"])
    flat = {
        f"{group}{_SEPARATOR}{key}": array
        for group, arrays in results.items()
        for key, array in arrays.items()
    }
    write_arrays(Path(RESULTS_FILE), flat)


if __name__ == "__main__":
    main()
