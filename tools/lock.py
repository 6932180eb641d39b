"""Write ``locks/*.txt`` from `pyproject.toml`: all packages of an environment with their hashes.

Run by `make lock`; options are those of ``uv pip compile``, such as ``--upgrade``. It uses pip's
settings of this machine (``PIP_FIND_LINKS``) to find PyTorch's CPU build, with which its lock is
resolved: it contains no package for accelerators. The hashes of the build on the default index are
added, so that either build installs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from installer import read_entries

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "locks"
TORCH = r"^torch==.*\n(?:    --hash=.*\n)*"
HEADER = """\
# The environment "{name}", exact. Written by `make lock` from pyproject.toml; do not edit.
"""

#: Installed in the environment of each framework.
KERNEL = "kernel"
LABORATORY = "laboratory"
DEVELOPMENT = "dev"


def _environments() -> dict[str, list[str]]:
    """Return the optional dependencies of `pyproject.toml` that each environment has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    frameworks = {*project["optional-dependencies"]} - {LABORATORY, DEVELOPMENT, KERNEL}
    names = {name: [name, KERNEL] for name in sorted(frameworks)}
    return {LABORATORY: [LABORATORY, DEVELOPMENT], **names}


EXTRAS = _environments()


def main() -> None:
    """Resolve the packages of each environment and write its lock file."""
    LOCKS.mkdir(exist_ok=True)
    for name in EXTRAS:
        path = LOCKS / f"{name}.txt"
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        text = _resolve(name, before, sys.argv[1:])
        path.write_text(HEADER.format(name=name) + text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {len(read_entries(text))} packages")


def _resolve(name: str, before: str, options: list[str]) -> str:
    """Return the lock of an environment; of PyTorch with the hashes of both builds."""
    before = re.sub(TORCH, "", before, flags=re.M)  # its version would select the other build
    links = os.environ.get("PIP_FIND_LINKS", "").split()
    find_links = [option for link in links for option in ("--find-links", link)]
    text = _compile(name, before, [*find_links, *options])
    text = re.sub(r"^(torch==[\d.]+)\+cpu", r"\1", text, flags=re.M)
    if found := re.search(TORCH, text, re.M):
        others = sorted(_hashes(_compile(name, before, options)) - _hashes(text))
        entry = found[0].rstrip() + "".join(f" \\\n    --hash={value}" for value in others) + "\n"
        text = text.replace(found[0], entry)
    return text


def _compile(name: str, before: str, options: list[str]) -> str:
    """Resolve the declared packages, and those that building this one and the locks needs.

    Versions of the present lock file are preferred; `--upgrade` selects newer ones.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "lock.txt")
        out.write_text(before, encoding="utf-8")
        sources = ["pyproject.toml", *(["tools/build.in"] if name == LABORATORY else [])]
        extras = [word for extra in EXTRAS[name] for word in ("--extra", extra)]
        done = subprocess.run(
            [sys.executable, "-m", "uv", "pip", "compile", *sources, *extras, "--generate-hashes",
             "--no-header", "--no-annotate", "--quiet", "--python-version", "3.11",
             "--output-file", str(out), *options],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"error: {done.stderr.strip()}")
        return out.read_text(encoding="utf-8")


def _hashes(text: str) -> set[str]:
    """Read the hashes of PyTorch."""
    entry = re.search(TORCH, text, re.M)
    return set(re.findall(r"sha256:\w+", entry[0])) if entry else set()


if __name__ == "__main__":
    main()
