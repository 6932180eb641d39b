"""Words that do not come back, and the first words of docstrings.

Names, comments, docstrings, messages, notebooks and pages use the words of the field: what the
documentation of PyTorch, TensorFlow, Slurm, DVC or psutil would say.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Private words of earlier versions, as parts of names, each with the word in use.
NAME_WORDS = {
    "aftermath": "fault report",
    "bare": "timed",
    "cables": "links",
    "crowded": "oversubscribed",
    "departure": "divergence",
    "diary": "event log",
    "doorbell": "gone",
    "drained": "input_batches",
    "fate": "process outcome",
    "grounded": "with_local_fallback",
    "incident": "fault",
    "incidents": "faults",
    "keeper": "holder process",
    "kept": "artifacts, stored, cached",
    "lifeline": "parent-death signal",
    "look": "evaluation, style",
    "looked": "evaluated",
    "looks": "evaluations",
    "noted": "recorded",
    "noticed": "detected",
    "obstacle": "unavailable reason",
    "ordeal": "fault injection",
    "patience": "stall timeout",
    "proof": "certificate",
    "proofs": "certificates",
    "prove": "verify",
    "proven": "verified",
    "prover": "checker",
    "recipe": "training setup",
    "seat": "rank, role assignment",
    "settled": "final",
    "somebody": "-",
    "someone": "-",
    "strike": "inject",
    "struck": "injected",
    "tally": "gone",
    "tell": "return, compute",
    "told": "answer, result, message",
    "troubled": "failed unexpectedly",
    "tryout": "quick comparison",
    "twin": "baseline",
    "victim": "target",
    "wish": "objective",
}

#: Private phrases of earlier versions in prose, each with the phrase in use.
PHRASES = {
    r"aftermaths?": "fault report",
    r"at hand": "available",
    r"bare (?:steps?|ones|throughput|machine's)": "timed steps",
    r"cables?": "link",
    r"(?:comes?|came|coming) to\b": "-",
    r"crowded": "oversubscribed",
    r"departs?|departures?": "diverge, divergence",
    r"doorbells?": "-",
    r"drained": "read alone",
    r"(?:goes|went|going|go) on": "continue",
    r"(?:held|holds?) (?:\w+ )?against": "compare",
    r"incidents?": "fault",
    r"kept": "stored, cached, preserved",
    r"(?:been|being|nothing) left|left behind": "remains",
    r"lifelines?": "parent-death signal",
    r"(?:a|an|each|every|its) looks?": "evaluation",
    r"nobody|somebody|someone|no one": "-",
    r"noticed": "detected",
    r"ordeals?": "fault injection",
    r"patience": "stall timeout",
    r"pictures?": "figure",
    r"proofs?|prov(?:e|es|ed|en|ing|ers?)": "certificate, verify",
    r"second (?:life|lives)": "restart",
    r"struck": "injected",
    r"tells?|telling|told": "return, print, record, say which",
    r"the house": "the architecture",
    r"try-?outs?": "quick comparison",
    r"twins?": "baseline",
    r"victims?": "target",
}

#: First words of the docstrings of functions; those of properties and classes are noun phrases.
_VERBS = """
Accept Add Aggregate Align Annotate Append Apply Assert Assign Attach Attribute Average Block Build
Cache Call Change Check Classify Clip Close Collect Combine Compare Compile Compute Concatenate
Configure Connect Continue Convert Copy Correlate Count Create Crop Decode Defer Define Delete
Derive Describe Detach Differentiate Disable Disconnect Display Divide Do Double Download Draw Echo
Embed Enable Encode Enqueue Ensure Escape Estimate Evaluate Evict Execute Exit Expand Explain Export
Extend Extract Fetch Fill Filter Finalize Find Finish Fit Flatten Flush Format Forward Gather
Generate Group Handle Hash Hide Highlight Identify Import Indent Inject Insert Install Integrate
Interpolate Interrupt Invert Join Judge Keep Kill Label Launch Leave Limit Link List Listen Load
Locate Lock Log Make Map Mark Mask Match Measure Merge Migrate Minimise Mirror Monitor Move Multiply
Name Normalise Number Open Order Overlay Pack Pad Pair Parse Pause Permute Perturb Pick Place Plan
Plot Poll Pool Predict Prefix Prepare Print Process Profile Propagate Publish Push Query Queue Quote
Raise Randomise Rank Read Receive Recommend Reconnect Record Reduce Refer Refuse Register Release
Remove Rename Render Reorder Repeat Replace Report Request Reserve Reset Reshape Resolve Restore
Resume Return Reverse Rotate Round Run Sample Save Scale Scatter Schedule Score Search Seed Select
Send Serialise Serve Set Shift Shorten Show Shuffle Shut Signal Simulate Skip Sleep Solve Sort Split
Stack Start Stop Store Strip Submit Subtract Sum Summarise Supervise Suppress Switch Synchronize
Terminate Test Time Tokenise Trace Track Train Translate Transpose Try Unmap Unpack Update Upscale
Validate Verify View Wait Warm Whether Wrap Write Yield Zero
"""
FIRST_WORDS = frozenset(_VERBS.split())

#: Packages that are still being rewritten; the list must be empty in a release.
PENDING: frozenset[str] = frozenset()

#: These read or describe earlier versions.
EXEMPT = {
    "CHANGELOG.md",
    "src/horizont/records/format1.py",
    "tests/records/test_format1.py",
    "tests/architecture/test_vocabulary.py",
}

_NAMES = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PROSE = re.compile(rf"(?i)(?<![\w./`-])(?:{'|'.join(PHRASES)})(?![\w`/-]|\.\w)")


def scopes() -> dict[str, list[Path]]:
    """Return the files by package, or by folder outside the packages."""
    found: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        package, *inner = path.relative_to(ROOT / "src").parts
        name = inner[0].removesuffix(".py") if package == "horizont" else package
        found.setdefault(name, []).append(path)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        inner = path.relative_to(ROOT / "tests").parts
        found.setdefault(f"tests/{inner[0].removesuffix('.py')}", []).append(path)
    for folder in ("bench", "tools"):
        found[folder] = sorted((ROOT / folder).glob("*.py"))
    found["notebooks"] = sorted((ROOT / "notebooks").rglob("*.ipynb"))
    found["docs"] = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    found["settings"] = sorted(
        [*ROOT.glob("*.yaml"), *(ROOT / "profiles").glob("*.yaml"), ROOT / "Makefile"]
    )
    return found


SCOPES = scopes()


def marked(scope: str) -> object:
    """Return a parameter of a test, marked if the scope is pending."""
    package = scope.removeprefix("tests/")
    marks = [pytest.mark.xfail(reason="being rewritten")] if package in PENDING else []
    return pytest.param(scope, marks=marks)


def findings(path: Path) -> list[str]:
    """List the private words in a file."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    if name in EXEMPT:
        return []
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        parts = notebook_parts(text)
    elif path.suffix == ".py":
        parts = python_parts(text)
    else:
        parts = enumerate(text.splitlines(), 1)
    found = [
        f"{name}:{line}: {match[0]!r}: {_phrase_in_use(match[0])}"
        for line, prose in parts
        for match in _PROSE.finditer(prose)
    ]
    if path.suffix == ".py":
        for line, identifier in defined_names(ast.parse(text)):
            words = {word.lower() for word in _NAMES.findall(identifier)}
            found += [
                f"{name}:{line}: name {identifier!r}: {NAME_WORDS[word]}"
                for word in sorted(words & set(NAME_WORDS))
            ]
    return found


def _phrase_in_use(found: str) -> str:
    return next(new for old, new in PHRASES.items() if re.fullmatch(old, found, re.I))


def notebook_parts(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of all cells."""
    for number, cell in enumerate(json.loads(text)["cells"]):
        for line in "".join(cell["source"]).splitlines():
            yield number, line


def python_parts(text: str) -> Iterator[tuple[int, str]]:
    """Yield comments and texts of Python code, but for the old keys that settings may have."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    tree = ast.parse(text)
    renamed = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and "RENAMED" in ast.unparse(node)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in renamed and " " in node.value:  # type: ignore[attr-defined]
            yield node.lineno, node.value  # type: ignore[attr-defined]


def defined_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield what the code names itself: functions, classes, parameters, variables, attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr


def wrong_docstrings(path: Path) -> list[str]:
    """List the functions whose docstring begins with another word, and classes with a verb."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    wrong = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        docstring = ast.get_docstring(node)
        if not docstring:
            continue
        word = re.match(r"\S+?(?=[\s.,:;]|$)", docstring)
        assert word
        decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
        if re.search(r"\b(figure|table)\(", decorators):
            continue  # the docstring is a caption
        if node.name.startswith("test_") or "fixture" in decorators:
            continue  # either may describe a situation
        is_noun = isinstance(node, ast.ClassDef) or "property" in decorators
        if is_noun and word[0] in ("Return", "Tell", "Compute", "Get"):
            wrong.append(f"{name}:{node.lineno}: {node.name}: a noun phrase, not {word[0]!r}")
        if not is_noun and word[0] not in FIRST_WORDS:
            wrong.append(f"{name}:{node.lineno}: {node.name}: {word[0]!r}")
    return wrong


@pytest.mark.parametrize("scope", [marked(scope) for scope in SCOPES])
def test_private_words_do_not_come_back(scope: str) -> None:
    found = [line for path in SCOPES[scope] for line in findings(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "scope",
    [marked(name) for name, paths in SCOPES.items() if paths and paths[0].suffix == ".py"],
)
def test_docstrings_begin_with_a_verb_of_the_list(scope: str) -> None:
    wrong = [line for path in SCOPES[scope] for line in wrong_docstrings(path)]
    assert not wrong, "\n".join(wrong)


def test_planted_words_are_found(tmp_path: Path) -> None:
    code = tmp_path / "code.py"
    code.write_text(
        '"""A module."""\n\n'
        "def tell_fate(victim: int) -> int:\n"
        '    """Tell what the run came to."""\n'
        "    return victim  # as the server was told\n",
        encoding="utf-8",
    )
    expected = ["'came to'", "'told'", "'tell_fate'", "'victim'"]
    text = "\n".join([*findings(code), *wrong_docstrings(code)])
    assert [word for word in [*expected, "tell_fate: 'Tell'"] if word not in text] == []
    notebook = tmp_path / "page.ipynb"
    notebook.write_text(json.dumps({"cells": [{"source": ["# The proof\n", "it was struck"]}]}))
    assert len(findings(notebook)) == 2
    page = tmp_path / "page.md"
    page.write_text("Nothing of it was kept.\n\nRead `records/incidents/kept.json`.\n")
    assert len(findings(page)) == 1
