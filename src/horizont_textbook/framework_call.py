"""A function called in the interpreter of a framework, and the files that carry the call.

``python -m horizont_textbook.framework_call`` reads the call from its working folder and writes the
results there. JSON and ``.npz`` can be read by every version of Python and NumPy; pickles cannot.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

from horizont.records.files import write_arrays
from horizont_textbook import Array

CALL_FILE, RESULTS_FILE = "call.json", "results.npz"

#: Arrays by ``case|name`` or ``exercise|name``.
Results = dict[str, Array]


def main() -> None:
    """Make the call in this process."""
    call = json.loads(Path(CALL_FILE).read_text(encoding="utf-8"))
    module, _, name = call["function"].partition(":")
    results: Results = getattr(import_module(module), name)(**call["arguments"])
    write_arrays(Path(RESULTS_FILE), results)


if __name__ == "__main__":
    main()
