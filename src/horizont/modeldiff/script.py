"""The program that shows the first difference alone, for an editor or a bug report.

It needs NumPy and both frameworks, not Horizont: each side is a function of its own, executed in
its own interpreter. The first difference is the first tensor in the order of execution that
diverges although all tensors before it agree. An output is repeated by its layer alone, an input or
the result by the model up to it. Of a side that has no code for it, the recorded tensor is given.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np

from horizont.errors import UserError
from horizont.modeldiff.comparison import Comparison
from horizont.modeldiff.distances import Difference
from horizont.modeldiff.process import RunFailed
from horizont.modeldiff.recording import BUILD_LINE, Array, Recording, Side, Snippet
from horizont.modeldiff.report import Report, listed

SUFFIX = ".py"

_PROGRAM = '''\
"""{title}

{sides}

Both get the same input and the same weights in double precision, from {data}.
Without arguments it executes each side in its interpreter and compares them: the exit
status is 0 if they agree, 1 if not, and 2 if one fails.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PYTHON = {{
    "a": {python_a},
    "b": {python_b},
}}
BOUND = {bound!r}


{function_a}

{function_b}

def execute(side, path):
    start, found, weights = side + "|", {{}}, {{}}
    with np.load(Path(__file__).with_suffix(".npz")) as file:
        for key in file.files:
            if key.startswith(start + "weights|"):
                weights[key.split("|", 2)[2]] = file[key]
            elif key.startswith(start):
                found[key[2:]] = file[key]
    np.save(path, {{"a": a, "b": b}}[side](found["value"], weights))


def compare():
    found = {{}}
    with tempfile.TemporaryDirectory() as folder:
        for side, python in PYTHON.items():
            path = str(Path(folder, side + ".npy"))
            done = subprocess.run([python, __file__, side, path], stderr=subprocess.PIPE, text=True)
            if done.returncode:
                print(f"side {{side}} failed: {{done.stderr}}", file=sys.stderr)
                return 2
            found[side] = np.load(path)
    one, other = found["a"], found["b"]
    if one.shape != other.shape:
        print("the shapes are", one.shape, "and", other.shape)
        return 1
    distance = np.linalg.norm(one - other) / np.linalg.norm(other)
    where = np.unravel_index(np.abs(one - other).argmax(), one.shape)
    place = ", ".join(map(str, where))
    both = f"{{one[where]}} and {{other[where]}}"
    print(f"distance {{distance:.2g}}; {{both}} at [{{place}}] differ most")
    return int(not distance <= BOUND)


if __name__ == "__main__":
    sys.exit(execute(*sys.argv[1:]) if sys.argv[1:] else compare())
'''

_RECORDED = """\
# It cannot be computed apart from its model: this is what was recorded.
return value
"""


def check_script_path(path: Path) -> None:
    """Refuse a file that cannot be a program of Python.

    Raises
    ------
    UserError
        If the name has another suffix, or there is no such folder.
    """
    if path.suffix != SUFFIX or not path.parent.is_dir():
        raise UserError(
            "--script", str(path), f"a name that ends in {SUFFIX}, in a folder that exists"
        )


def write_script(report: Report, comparison: Comparison, path: Path) -> str:
    """Write the program of the first difference, and say so in a sentence.

    Beside it, a file ``.npz`` of the same name has inputs and weights.
    """
    recorded = comparison.run_fed()
    first = next((each for each in comparison.compare_fed(recorded) if each.exceeds), None)
    if first is None:
        return "no script was written: no tensor diverges in evaluation"
    partners = {pair.a.name: pair.b.name for pair in comparison.pairs}
    names = [first.layer, partners.get(first.layer, "")]
    tensors = dict(recorded)
    if first.quantity == "output":  # the input that side B had
        key = f"input|{first.layer}"
        tensors |= {key: comparison.feed[key]} if key in comparison.feed else {}
    a, b, what = comparison.a, comparison.b, first.quantity
    snippets = [
        _snippet(a, what, names[0], comparison.weights_a, tensors),
        _snippet(b, what, names[1], comparison.weights, comparison.evaluation_b),
    ]
    versions = [a.versions, b.versions]
    if report.changed == "B":
        for each in (names, snippets, versions):
            each.reverse()
    program = _PROGRAM.format(
        title=f"The {_tensor(first, names)}: the first tensor that differs.",
        sides="\n".join(map(_side, "AB", (report.a, report.b), versions)),
        data=path.with_suffix(".npz").name,
        bound=first.bound,
        python_a=json.dumps(snippets[0].python),
        python_b=json.dumps(snippets[1].python),
        function_a=_function("a", snippets[0]),
        function_b=_function("b", snippets[1]),
    )
    path.write_text(program, encoding="utf-8")
    arrays: Any = {
        f"{letter}|{key}": value
        for letter, snippet in zip("ab", snippets, strict=True)
        for key, value in snippet.arrays.items()
    }
    np.savez_compressed(path.with_suffix(".npz"), **arrays)
    return f"the first difference alone: python {path}"


def _snippet(
    side: Side, quantity: str, layer: str, weights: Mapping[str, Array], tensors: Recording
) -> Snippet:
    """Return the code of a side for a tensor; if it has none, that which returns the recorded one.

    Any interpreter with NumPy returns it.
    """
    value = tensors.get(f"input|{layer}") if quantity == "output" else None
    if value is not None or quantity != "output":
        with contextlib.suppress(RunFailed):
            if (snippet := side.script(layer, weights, value)).code:
                return snippet
    recorded = tensors[f"{quantity}|{layer}" if layer else quantity]
    return Snippet(_RECORDED, {"value": recorded}, sys.executable)


def _tensor(first: Difference, names: Sequence[str]) -> str:
    if not first.layer:
        return first.quantity
    return f"{first.quantity} of {names[0]} (A) and of {names[1]} (B)"


def _side(label: str, text: str, versions: Mapping[str, str]) -> str:
    return f"{label}  {text} ({listed(versions) or 'recorded'})"


def _function(name: str, snippet: Snippet) -> str:
    code = snippet.code.rstrip()
    if BUILD_LINE in code:
        code = code.replace(BUILD_LINE, _imports(snippet.target))
    return f"def {name}(value, weights):\n{indent(code, '    ')}\n"


def _imports(target: str) -> str:
    """Return code that imports the callable of a side as ``build``."""
    where, _, name = target.rpartition(":")
    first, *attributes = name.split(".")
    path = "".join(f".{each}" for each in attributes)
    if where.endswith(".py"):
        folder = os.path.dirname(where)
        return (
            "import runpy\n\n"
            f"sys.path.insert(0, {json.dumps(folder)})\n"
            f"build = runpy.run_path({json.dumps(where)})[{json.dumps(first)}]{path}"
        )
    lines = f"from {where} import {first} as build"
    if path:
        lines += f"\n\nbuild = build{path}"
    package = where.partition(".")[0]
    if Path(package).is_dir() or Path(f"{package}.py").is_file():
        lines = f"sys.path.insert(0, {json.dumps(os.getcwd())})\n{lines}"
    return lines
