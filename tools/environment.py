"""Create the environment in `.venv` from `requirements.lock`, and test what was installed.

``python3.11 tools/environment.py [--without FRAMEWORK ...]``, or `make env`: does nothing if the
environment was created from this lock file. An excluded framework remains excluded until
``--without none``. Only the standard library and pip are used.
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
STAMP = VENV / ".created-from.json"

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


#: Framework -> its package in the lock file, and a program that tests it in its own process.
FRAMEWORKS = _frameworks()

#: Exits with 0 if the installed PyTorch requires packages for accelerators.
IS_OTHER_BUILD = """
import re, sys
from importlib.metadata import requires
sys.exit(not any(re.match("nvidia|cuda|triton", line) for line in requires("torch") or []))
"""

OTHER_BUILD = """\
    pip finds only PyTorch's build for accelerators; installing its requirements, several GB.
    For the CPU build instead, point pip to it (PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL, see the
    installation page of PyTorch), remove .venv, and run this again."""


def main() -> int:
    """Create the environment if it is not up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--without", action="append", choices=[*sorted(FRAMEWORKS), "none"], metavar="FRAMEWORK",
        help=f"exclude a framework ({', '.join(FRAMEWORKS)}), or `none` again",
    )  # fmt: skip
    asked = parser.parse_args().without
    problem = _problem()
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    before = _stamp()
    excluded = before.get("excluded", []) if asked is None else sorted({*asked} - {"none"})
    wanted = {"lock": hashlib.sha256(LOCK.read_bytes()).hexdigest(), "excluded": excluded}
    if wanted.items() <= before.items():
        if before["failed"]:
            print(f"note: {_names(before['failed'])} could not be installed; "
                  f"remove {STAMP.relative_to(ROOT)} to try again")  # fmt: skip
        return 0
    started = time.monotonic()
    failed = _create(excluded)
    _write_stamp(**wanted, failed=failed)
    print(f"environment created in {time.monotonic() - started:.0f} s: {VENV}")
    if excluded or failed:
        print(f"without {_names(excluded + failed)}: the study shows the runs as skipped")
    return 0


def _problem() -> str:
    """Return what prevents the environment from being created; empty if nothing does."""
    if sys.version_info[:2] != (3, 11):
        found = ".".join(map(str, sys.version_info[:2]))
        return f"Python {found} cannot be used; Python 3.11 is needed (python3.11)"
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        return "Python's venv module is missing; install it (Debian: python3.11-venv)"
    return ""


def _create(excluded: list[str]) -> list[str]:
    """Install the lock file without some frameworks, then this package; return what failed."""
    if not _is_complete():
        _report("creating .venv")
        created = subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=False)
        if created.returncode:
            sys.exit("error: .venv could not be created; the reason is above")
    _write_stamp(
        excluded=excluded
    )  # so that an interrupted installation excludes the same frameworks
    entries = _entries(LOCK.read_text(encoding="utf-8"))
    frameworks = {name: entries.pop(package, "") for name, (package, _) in FRAMEWORKS.items()}
    _report(f"installing {len(entries)} packages of the lock file (some minutes)")
    if _install("".join(entries.values())):
        sys.exit(
            "error: the packages of the lock file could not be installed; pip's messages are above"
        )
    failed = []
    for name, entry in frameworks.items():
        if name in excluded:
            _pip("uninstall", "--yes", FRAMEWORKS[name][0])
        elif not _install_and_test(name, entry):
            failed.append(name)
    _report("installing horizont itself")
    if _pip("install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)):
        sys.exit("error: horizont itself could not be installed; pip's messages are above")
    return failed


def _stamp() -> dict[str, Any]:
    """Read what the environment was created from; empty if it is missing or incomplete."""
    try:
        return dict(json.loads(STAMP.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _write_stamp(**content: Any) -> None:
    STAMP.write_text(json.dumps(content), encoding="utf-8")


def _is_complete() -> bool:
    """Whether .venv is usable: after an interrupted creation it has no pip."""
    code = "import pip, sys; sys.exit(sys.version_info[:2] != (3, 11))"
    return PYTHON.exists() and not _fails(code)


def _entries(lock: str) -> dict[str, str]:
    """Split the lock file into its packages, each with its hashes."""
    found = re.findall(r"^([a-z0-9][a-z0-9-]*)==.*\n(?:    --hash=.*\n?)*", lock, re.M)
    parts = re.findall(r"^[a-z0-9][a-z0-9-]*==.*\n(?:    --hash=.*\n?)*", lock, re.M)
    return dict(zip(found, parts, strict=True))


def _install_and_test(name: str, entry: str) -> bool:
    """Install a framework and test it in its own process; return whether it works."""
    package, program = FRAMEWORKS[name]
    if not entry:
        print(f"    {name} is not in the lock file; continuing without it")
        return False
    _report(f"installing {name}")
    if not _install_framework(entry):
        print(f"    {name} could not be installed; continuing without it")
        return False
    if name == "pytorch" and _fails(program) and not _fails(IS_OTHER_BUILD):
        print(OTHER_BUILD, flush=True)
        _pip("install", entry.split(maxsplit=1)[0], "--constraint", str(_constraints()))
    _report(f"testing {name}")
    reason = _fails(program)
    if reason:
        print(f"    {name} does not work here, continuing without it: {reason}")
        _pip("uninstall", "--yes", package)
    return not reason


def _install_framework(entry: str) -> bool:
    """Install a framework; of PyTorch the CPU build, where pip finds one.

    With hashes, pip prefers the default index's build although the CPU build has the higher
    version, so the latter is requested by its full name first.
    """
    cpu = re.sub(r"^(torch==[\d.]+)", r"\1+cpu", entry)
    if cpu != entry and _install(cpu, silent=True) == 0:
        return True
    return _install(entry) == 0


def _install(entries: str, *, silent: bool = False) -> int:
    """Install exactly the given entries of the lock file; return pip's exit status."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(entries)
        file.flush()
        words = ("install", "--no-deps", "--require-hashes", "--requirement", file.name)
        return _pip(*words, silent=silent)


def _pip(*words: str, silent: bool = False) -> int:
    """Run pip in the environment and return its exit status; print its errors unless silent."""
    command = [str(PYTHON), "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode and not silent:
        errors = [line for line in done.stderr.splitlines() if not line.startswith("WARNING")]
        print("\n".join(f"    {line}" for line in errors[-8:]))
    return done.returncode


def _fails(code: str) -> str:
    """Run Python in the environment; return the last line of its error, or nothing."""
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    tried = subprocess.run(
        [str(PYTHON), "-c", code], env=quiet, capture_output=True, text=True, check=False
    )
    lines = tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"]
    return lines[-1] if tried.returncode else ""


def _constraints() -> Path:
    """Write the versions of the lock file without its hashes, for pip's own resolution."""
    path = VENV / "constraints.txt"
    lock = LOCK.read_text(encoding="utf-8")
    path.write_text("\n".join(re.findall(r"^[a-z0-9-]+==[^\s\\]+", lock, re.M)), encoding="utf-8")
    return path


def _names(names: list[str]) -> str:
    return ", ".join(names)


def _report(text: str) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted; the same command resumes", file=sys.stderr)
        sys.exit(130)
