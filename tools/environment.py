"""Make the environment in `.venv` from `requirements.lock`, and try what was installed.

``python3.11 tools/environment.py [--without FRAMEWORK ...]``; `make env` calls it when the lock
has changed. Uses nothing but the standard library and pip.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements.lock"
STAMP = VENV / ".made-from"

#: Framework -> its package in the lock, and how to try it. One framework a process.
FRAMEWORKS = {
    "tensorflow": ("tensorflow-cpu", "import tensorflow"),
    "pytorch": ("torch", "import torch"),
    "mxnet": ("mxnet", "import numpy; numpy.bool = numpy.bool_; import mxnet"),
}

OTHER_BUILD = """\
    This index offers PyTorch's build for accelerators only; installing what it needs, several GB.
    To take the CPU build instead, point pip to it (PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL, see the
    installation page of PyTorch), remove .venv, and run this again."""


def main() -> int:
    """Make the environment, or find it made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--without", action="append", default=[], choices=sorted(FRAMEWORKS), metavar="FRAMEWORK",
        help="leave a framework out: " + ", ".join(FRAMEWORKS),
    )  # fmt: skip
    left_out = parser.parse_args().without
    problem = _problem()
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    wanted = LOCK.read_text(encoding="utf-8") + " ".join(sorted(left_out))
    if STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted:
        return 0
    started = time.monotonic()
    _make(left_out)
    missing = _try_frameworks(left_out)
    STAMP.write_text(wanted, encoding="utf-8")
    print(f"environment made in {time.monotonic() - started:.0f} s: {VENV}")
    if missing:
        print(f"without {', '.join(missing)}: the study shows them as skipped")
    return 0


def _problem() -> str:
    """Say in a sentence what keeps the environment from being made; nothing if all is well."""
    if sys.version_info[:2] != (3, 11):
        found = ".".join(map(str, sys.version_info[:2]))
        return f"Python {found} cannot be used; Python 3.11 is needed (python3.11)"
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        return "Python's venv module is missing; install it (Debian: python3.11-venv)"
    return ""


def _make(left_out: list[str]) -> None:
    """Install the lock without those frameworks, then this package."""
    if not PYTHON.exists():
        _say("making .venv")
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    entries = _entries(LOCK.read_text(encoding="utf-8"))
    packages = {name: FRAMEWORKS[name][0] for name in FRAMEWORKS}
    frameworks = {packages[name]: entries.pop(packages[name]) for name in FRAMEWORKS}
    _say(f"installing {len(entries)} packages of the lock (some minutes)")
    if _install("".join(entries.values())):
        sys.exit("error: the packages of the lock could not be installed; pip's words are above")
    for name in FRAMEWORKS:
        if name not in left_out:
            _say(f"installing {name}")
            if not _install_framework(frameworks[packages[name]]):
                print(f"    {name} could not be installed; going on without it")
    _say("installing horizont itself")
    _pip("install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))


def _install_framework(entry: str) -> bool:
    """Install a framework; of PyTorch the CPU build, where pip finds one.

    With hashes, pip takes the default index's build although the CPU build's version is the
    higher one: so that one is asked for by its full name first.
    """
    cpu = re.sub(r"^(torch==[\d.]+)", r"\1+cpu", entry)
    if cpu != entry and _install(cpu, silent=True) == 0:
        return True
    return _install(entry) == 0


def _entries(lock: str) -> dict[str, str]:
    """Part the lock into its packages, each with its hashes."""
    found = re.findall(r"^([a-z0-9][a-z0-9-]*)==.*\n(?:    --hash=.*\n?)*", lock, re.M)
    parts = re.findall(r"^[a-z0-9][a-z0-9-]*==.*\n(?:    --hash=.*\n?)*", lock, re.M)
    return dict(zip(found, parts, strict=True))


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


def _try_frameworks(left_out: list[str]) -> list[str]:
    """Import each framework in a process of its own, and name those that do not come."""
    missing = []
    for name, (package, words) in FRAMEWORKS.items():
        if name in left_out:
            missing.append(name)
            continue
        _say(f"trying {name}")
        if _works(words):
            continue
        if package == "torch" and _pip("show", "torch") == 0:
            print(OTHER_BUILD)
            _pip("install", "torch", "--constraint", str(_constraints()))
        if not _works(words):
            _pip("uninstall", "--yes", package)
            print(f"    {name} does not work here")
            missing.append(name)
    return missing


def _works(words: str) -> bool:
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    tried = subprocess.run([str(PYTHON), "-c", words], env=quiet, capture_output=True, check=False)
    return tried.returncode == 0


def _constraints() -> Path:
    """Write the versions of the lock without its hashes, for pip's own resolution."""
    path = VENV / "constraints.txt"
    lock = LOCK.read_text(encoding="utf-8")
    path.write_text("\n".join(re.findall(r"^[a-z0-9-]+==[^\s\\]+", lock, re.M)), encoding="utf-8")
    return path


def _say(text: str) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
