"""Write `requirements.lock` from `pyproject.toml`: every package, exact, with its hashes.

Run by `make lock`. It needs `uv` and uses pip's settings of this machine (``PIP_FIND_LINKS``) to
find PyTorch's CPU build, with which the lock file is resolved: it contains no package for
accelerators. The hashes of the build on the default index are added, so that either build installs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
TORCH = r"^torch==.*\n(?:    --hash=.*\n)*"
HEADER = """\
# The whole environment, exact. Written by `make lock` from pyproject.toml; do not edit.
# PyTorch is resolved as its CPU build, without packages for accelerators.
"""


def main() -> int:
    """Resolve the packages and write the lock file."""
    before = LOCK.read_text(encoding="utf-8") if LOCK.exists() else ""
    before = re.sub(TORCH, "", before, flags=re.M)  # its version would select the other build
    links = os.environ.get("PIP_FIND_LINKS", "").split()
    options = [option for link in links for option in ("--find-links", link)]
    text = _compile(before, [*options, *sys.argv[1:]])
    text = re.sub(r"^(torch==[\d.]+)\+cpu", r"\1", text, flags=re.M)
    found = re.search(TORCH, text, re.M)
    if found is None:
        print("error: PyTorch is not in the resolved environment", file=sys.stderr)
        return 1
    others = sorted(_hashes(_compile(before, [])) - _hashes(text))
    entry = found[0].rstrip() + "".join(f" \\\n    --hash={value}" for value in others) + "\n"
    LOCK.write_text(HEADER + text.replace(found[0], entry), encoding="utf-8")
    print(f"{LOCK.name}: {len(re.findall(r'^[a-z0-9].*==', text, re.M))} packages")
    return 0


def _compile(before: str, options: list[str]) -> str:
    """Resolve the declared packages and those that building this one needs.

    Versions of the present lock file are preferred; `--upgrade` selects newer ones.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "lock.txt")
        out.write_text(before, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "tools/build.in",
             "--extra", "dev", "--generate-hashes", "--no-header", "--no-annotate", "--quiet",
             "--python-version", "3.11", "--output-file", str(out), *options],
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
    sys.exit(main())
