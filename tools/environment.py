"""Make the environment in `.venv` from `requirements.lock`, and try what was installed.

``python3.11 tools/environment.py [--without FRAMEWORK ...]``, or `make env`: does nothing if the
environment is already made from this lock. A framework that was left out stays out until
``--without none``. Uses nothing but the standard library and pip.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements.lock"
STAMP = VENV / ".made-from.json"

SOURCE = ROOT / "src"
REGISTRY = SOURCE / "horizont" / "config" / "system.py"


def _frameworks() -> dict[str, tuple[str, str]]:
    """Return by framework its package in the lock and a program that tests it.

    The sources are parsed, not imported, because nothing is installed yet that they import.
    """
    frameworks = {}
    for name, package in ast.literal_eval(_assigned(REGISTRY, "FRAMEWORKS")).items():
        info = _assigned(SOURCE / package.replace(".", "/") / "info.py", "INFO")
        wanted = ("distributions", "import_names", "load_test")
        fields = {
            keyword.arg: ast.literal_eval(keyword.value)
            for keyword in getattr(info, "keywords", ())
            if keyword.arg in wanted
        }
        program = fields.get("load_test", f"import {fields['import_names'][0]}")
        frameworks[name] = (fields["distributions"][0], program)
    return frameworks


def _assigned(path: Path, name: str) -> ast.expr:
    """Return the expression that a module assigns to a name."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return node.value  # type: ignore[attr-defined,no-any-return]
    raise LookupError(f"{path} assigns no {name}")


#: Framework -> its package in the lock, and a program that tests it in a process of its own.
FRAMEWORKS = _frameworks()

#: Ends well if the PyTorch that came wants packages for accelerators.
IS_OTHER_BUILD = """
import re, sys
from importlib.metadata import requires
sys.exit(not any(re.match("nvidia|cuda|triton", line) for line in requires("torch") or []))
"""

OTHER_BUILD = """\
    pip finds only PyTorch's build for accelerators; installing what it needs, several GB.
    To take the CPU build instead, point pip to it (PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL, see the
    installation page of PyTorch), remove .venv, and run this again."""


def main() -> int:
    """Make the environment, or find it made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--without", action="append", choices=[*sorted(FRAMEWORKS), "none"], metavar="FRAMEWORK",
        help=f"leave a framework out ({', '.join(FRAMEWORKS)}), or `none` any more",
    )  # fmt: skip
    asked = parser.parse_args().without
    problem = _problem()
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    before = _stamp()
    left_out = before.get("left_out", []) if asked is None else sorted({*asked} - {"none"})
    wanted = {"lock": hashlib.sha256(LOCK.read_bytes()).hexdigest(), "left_out": left_out}
    if wanted.items() <= before.items():
        if before["failed"]:
            print(f"note: {_names(before['failed'])} could not be installed; "
                  f"remove {STAMP.relative_to(ROOT)} to try again")  # fmt: skip
        return 0
    started = time.monotonic()
    failed = _make(left_out)
    _put_stamp(**wanted, failed=failed)
    print(f"environment made in {time.monotonic() - started:.0f} s: {VENV}")
    if left_out or failed:
        print(f"without {_names(left_out + failed)}: the study shows the runs as skipped")
    return 0


def _problem() -> str:
    """Say in a sentence what keeps the environment from being made; nothing if all is well."""
    if sys.version_info[:2] != (3, 11):
        found = ".".join(map(str, sys.version_info[:2]))
        return f"Python {found} cannot be used; Python 3.11 is needed (python3.11)"
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        return "Python's venv module is missing; install it (Debian: python3.11-venv)"
    return ""


def _make(left_out: list[str]) -> list[str]:
    """Install the lock without those frameworks, then this package; name what did not work."""
    if not _is_whole():
        _say("making .venv")
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=False)
        if made.returncode:
            sys.exit("error: .venv could not be made; the reason is above")
    _put_stamp(left_out=left_out)  # an interrupt does not forget what was left out
    entries = _entries(LOCK.read_text(encoding="utf-8"))
    frameworks = {name: entries.pop(package, "") for name, (package, _) in FRAMEWORKS.items()}
    _say(f"installing {len(entries)} packages of the lock (some minutes)")
    if _install("".join(entries.values())):
        sys.exit("error: the packages of the lock could not be installed; pip's words are above")
    failed = []
    for name, entry in frameworks.items():
        if name in left_out:
            _pip("uninstall", "--yes", FRAMEWORKS[name][0])
        elif not _install_and_try(name, entry):
            failed.append(name)
    _say("installing horizont itself")
    if _pip("install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)):
        sys.exit("error: horizont itself could not be installed; pip's words are above")
    return failed


def _stamp() -> dict[str, Any]:
    """Read what the environment was made from; nothing if it never was, or not to the end."""
    try:
        return dict(json.loads(STAMP.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _put_stamp(**content: Any) -> None:
    STAMP.write_text(json.dumps(content), encoding="utf-8")


def _is_whole() -> bool:
    """Whether .venv is usable: an interrupt while it was made leaves one without pip."""
    words = "import pip, sys; sys.exit(sys.version_info[:2] != (3, 11))"
    return PYTHON.exists() and not _fails(words)


def _entries(lock: str) -> dict[str, str]:
    """Part the lock into its packages, each with its hashes."""
    found = re.findall(r"^([a-z0-9][a-z0-9-]*)==.*\n(?:    --hash=.*\n?)*", lock, re.M)
    parts = re.findall(r"^[a-z0-9][a-z0-9-]*==.*\n(?:    --hash=.*\n?)*", lock, re.M)
    return dict(zip(found, parts, strict=True))


def _install_and_try(name: str, entry: str) -> bool:
    """Install a framework and try it in a process of its own; tell if it does not work."""
    package, words = FRAMEWORKS[name]
    if not entry:
        print(f"    {name} is not in the lock; going on without it")
        return False
    _say(f"installing {name}")
    if not _install_framework(entry):
        print(f"    {name} could not be installed; going on without it")
        return False
    if name == "pytorch" and _fails(words) and not _fails(IS_OTHER_BUILD):
        print(OTHER_BUILD, flush=True)
        _pip("install", entry.split(maxsplit=1)[0], "--constraint", str(_constraints()))
    _say(f"trying {name}")
    reason = _fails(words)
    if reason:
        print(f"    {name} does not work here, going on without it: {reason}")
        _pip("uninstall", "--yes", package)
    return not reason


def _install_framework(entry: str) -> bool:
    """Install a framework; of PyTorch the CPU build, where pip finds one.

    With hashes, pip takes the default index's build although the CPU build's version is the
    higher one: so that one is asked for by its full name first.
    """
    cpu = re.sub(r"^(torch==[\d.]+)", r"\1+cpu", entry)
    if cpu != entry and _install(cpu, silent=True) == 0:
        return True
    return _install(entry) == 0


def _install(entries: str, *, silent: bool = False) -> int:
    """Install exactly the given entries of the lock; return pip's status."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(entries)
        file.flush()
        words = ("install", "--no-deps", "--require-hashes", "--requirement", file.name)
        return _pip(*words, silent=silent)


def _pip(*words: str, silent: bool = False) -> int:
    """Run pip in the environment and return its status; its errors are shown unless silent."""
    command = [str(PYTHON), "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode and not silent:
        errors = [line for line in done.stderr.splitlines() if not line.startswith("WARNING")]
        print("\n".join(f"    {line}" for line in errors[-8:]))
    return done.returncode


def _fails(words: str) -> str:
    """Run Python in the environment; return the last line of its complaint, or nothing."""
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    tried = subprocess.run(
        [str(PYTHON), "-c", words], env=quiet, capture_output=True, text=True, check=False
    )
    lines = tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"]
    return lines[-1] if tried.returncode else ""


def _constraints() -> Path:
    """Write the versions of the lock without its hashes, for pip's own resolution."""
    path = VENV / "constraints.txt"
    lock = LOCK.read_text(encoding="utf-8")
    path.write_text("\n".join(re.findall(r"^[a-z0-9-]+==[^\s\\]+", lock, re.M)), encoding="utf-8")
    return path


def _names(names: list[str]) -> str:
    return ", ".join(names)


def _say(text: str) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        sys.exit(130)
