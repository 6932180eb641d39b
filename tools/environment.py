"""Create the environments from their lock files, and test each framework in its own.

``python3.11 tools/environment.py [--without FRAMEWORK ...]``, or `make env`:

- `.venv`, from ``locks/laboratory.txt``: JupyterLab, papermill, DVC, the analysis, the tests;
- `.venv/frameworks/NAME`, from ``locks/NAME.txt``, for each framework: what its workers need and
  a Jupyter kernel, which is registered in `.venv`.

It does nothing where an environment was created from the present lock. An excluded framework
remains excluded until ``--without none``. With ``--here``, the environment of the running Python
is the laboratory, one of conda for example, and only those of the frameworks are created.

Only the standard library and pip are used. pip installs uv, which installs everything else in a
third of pip's time; where uv cannot be used, pip does it.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from installer import Installer, read_entries

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "locks"
SOURCE = ROOT / "src"
REGISTRY = SOURCE / "horizont" / "config" / "system.py"
LABORATORY = "laboratory"


@dataclass(frozen=True)
class Framework:
    """What the registry and the lock say about a framework.

    Attributes
    ----------
    package
        Its distribution in the lock file.
    test
        A program that fails if it is installed, but cannot be loaded.
    """

    label: str
    package: str
    test: str


def _frameworks() -> dict[str, Framework]:
    """Read the registry. It is parsed, not imported: nothing is installed yet that it imports."""
    frameworks = {}
    for name, package in ast.literal_eval(_assigned(REGISTRY, "FRAMEWORKS")).items():
        info = _assigned(SOURCE / package.replace(".", "/") / "info.py", "INFO")
        wanted = ("label", "distributions", "import_names")
        fields = {
            keyword.arg: ast.literal_eval(keyword.value)
            for keyword in getattr(info, "keywords", ())
            if keyword.arg in wanted
        }
        first_import = f"import {fields['import_names'][0]}"
        frameworks[name] = Framework(fields["label"], fields["distributions"][0], first_import)
    return frameworks


def _assigned(path: Path, name: str) -> ast.expr:
    """Return the expression that a module assigns to a name."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return node.value  # type: ignore[attr-defined,no-any-return]
    raise LookupError(f"{path} assigns no {name}")


FRAMEWORKS = _frameworks()

#: Fails in a laboratory that is unusable: after an interrupted creation it has no pip.
IS_COMPLETE = "import pip, sys; sys.exit(sys.version_info[:2] != (3, 11))"

#: Exits with 0 if the installed PyTorch requires packages for accelerators.
IS_OTHER_BUILD = """
import re, sys
from importlib.metadata import requires
sys.exit(not any(re.match("nvidia|cuda|triton", line) for line in requires("torch") or []))
"""

OTHER_BUILD = """\
    Only PyTorch's build for accelerators was found; installing its requirements, several GB.
    For the CPU build instead, point pip to it (PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL, see the
    installation page of PyTorch), remove .venv, and run this again."""


def main() -> int:
    """Create the environments that are not up to date."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--without", action="append", choices=[*sorted(FRAMEWORKS), "none"], metavar="FRAMEWORK",
        help=f"exclude a framework ({', '.join(FRAMEWORKS)}), or `none` again",
    )  # fmt: skip
    parser.add_argument(
        "--here", action="store_true", help="only the frameworks, for the Python that runs this"
    )
    asked = parser.parse_args()
    if problem := _problem():
        print(f"error: {problem}", file=sys.stderr)
        return 2
    environments = Environments(Path(sys.prefix) if asked.here else ROOT / ".venv")
    environments.update(asked.without, only_frameworks=asked.here)
    return 0


def _problem() -> str:
    """Return what prevents the environments from being created; empty if nothing does."""
    if sys.version_info[:2] != (3, 11):
        found = ".".join(map(str, sys.version_info[:2]))
        return f"Python {found} cannot be used; Python 3.11 is needed (python3.11)"
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        return "Python's venv module is missing; install it (Debian: python3.11-venv)"
    return ""


class Environments:
    """The laboratory, and below it the environments of the frameworks.

    Attributes
    ----------
    stamp
        What they were created from: `created` and `failed` (name: digest of the lock), `excluded`.
    """

    def __init__(self, laboratory: Path) -> None:
        self.laboratory = laboratory
        self.python = laboratory / "bin" / "python"
        self.stamp_file = laboratory / ".created-from.json"
        self.stamp: dict[str, Any] = {"created": {}, "failed": {}, "excluded": [], **self._read()}
        entries = read_entries(_lock(LABORATORY))
        self.installer = Installer(self.python, entries.get("uv", ""))

    def update(self, without: list[str] | None, *, only_frameworks: bool) -> None:
        """Create what is missing or was created from another lock."""
        started = time.monotonic()
        if without is not None:
            self.stamp["excluded"] = sorted({*without} - {"none"})
        excluded = self.stamp["excluded"]
        removed = [name for name in excluded if self.folder(name).exists()]
        for name in excluded:
            self._forget(name)
        outdated = [] if only_frameworks else self._outdated([LABORATORY])
        if outdated:
            self._create_laboratory()
        outdated += self._outdated([name for name in FRAMEWORKS if name not in excluded])
        for name in outdated:
            if name != LABORATORY:
                self._create_framework(name)
        for name in FRAMEWORKS:
            if self._kernel_folder(name).exists():
                self._describe_kernel(name)  # an earlier version may have described it otherwise
        self._write()
        failed = [*self.stamp["failed"]]
        if outdated or removed:
            print(f"environments created in {time.monotonic() - started:.0f} s: {self.laboratory}")
            if excluded or failed:
                missing = ", ".join([*excluded, *failed])
                print(f"without {missing}: the study shows the runs as skipped")
        elif failed:
            file = self.stamp_file.relative_to(self.laboratory.parent)
            print(f"note: {', '.join(failed)} could not be installed; remove {file} to try again")

    def folder(self, framework: str) -> Path:
        """Return the environment of a framework."""
        return self.laboratory / "frameworks" / framework

    def _read(self) -> dict[str, Any]:
        """Read the stamp; it is empty if it is missing or damaged."""
        try:
            return dict(json.loads(self.stamp_file.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}

    def _write(self) -> None:
        self.stamp_file.write_text(json.dumps(self.stamp), encoding="utf-8")

    def _outdated(self, names: list[str]) -> list[str]:
        """Return which environments were neither created from the present lock nor failed."""
        known = {**self.stamp["created"], **self.stamp["failed"]}
        return [name for name in names if known.get(name) != _digest(_lock(name))]

    def _forget(self, name: str) -> None:
        """Remove the environment of a framework, its kernel, and what the stamp says of it."""
        shutil.rmtree(self.folder(name), ignore_errors=True)
        shutil.rmtree(self._kernel_folder(name), ignore_errors=True)
        self.stamp["created"].pop(name, None)
        self.stamp["failed"].pop(name, None)

    def _create_laboratory(self) -> None:
        """Install the lock file of the laboratory, then this package."""
        if _error_of(self.python, IS_COMPLETE):
            _report("creating .venv")
            command = [sys.executable, "-m", "venv", "--clear", str(self.laboratory)]
            if subprocess.run(command, check=False).returncode:
                sys.exit("error: .venv could not be created; the reason is above")
            self.stamp |= {"created": {}, "failed": {}}
        self._write()  # so that an interrupted installation excludes the same frameworks
        lock = _lock(LABORATORY)
        _report(f"installing the laboratory: {len(read_entries(lock))} packages")
        if not self.installer.install(self.python, lock):
            sys.exit("error: the packages of the laboratory could not be installed; see above")
        _report("installing horizont itself")
        words = ("--no-deps", "--no-build-isolation", "--editable", str(ROOT))
        if not self.installer.run(self.python, *words):
            sys.exit("error: horizont itself could not be installed; see above")
        self.stamp["created"][LABORATORY] = _digest(lock)
        self._write()

    def _create_framework(self, name: str) -> None:
        """Create and test the environment of a framework; without it if that fails."""
        self._forget(name)
        self._write()
        reason = self._install_framework(name)
        if reason:
            print(f"    {name} {reason}; continuing without it")
            self._forget(name)
        else:
            self._register_kernel(name)
        self.stamp["failed" if reason else "created"][name] = _digest(_lock(name))
        self._write()

    def _install_framework(self, name: str) -> str:
        """Install a framework and test it; return why it cannot be used, or nothing."""
        framework, python = FRAMEWORKS[name], self.folder(name) / "bin" / "python"
        entries = read_entries(_lock(name))
        entry = entries.pop(framework.package, "")
        if not entry:
            return "is not in its lock file"
        _report(f"installing {name}")
        self.installer.create(self.folder(name))
        has_others = self.installer.install(python, "".join(entries.values()))
        if not has_others or not self._install_package(python, entry):
            return "could not be installed"
        if name == "pytorch" and _error_of(python, framework.test):
            self._complete_other_build(python, entry, entries)
        _report(f"testing {name}")
        error = _error_of(python, framework.test)
        return f"does not work here ({error})" if error else ""

    def _install_package(self, python: Path, entry: str) -> bool:
        """Install a framework; of PyTorch the CPU build, where there is one.

        With hashes, an installer may prefer the default index's build although the CPU build has
        the higher version, so the latter is requested by its full name first.
        """
        cpu = re.sub(r"^(torch==[\d.]+)", r"\1+cpu", entry)
        if cpu != entry and self.installer.install(python, cpu, silent=True):
            return True
        return self.installer.install(python, entry)

    def _complete_other_build(self, python: Path, entry: str, entries: dict[str, str]) -> None:
        """Install what PyTorch's build for accelerators requires, with the versions of the lock."""
        if _error_of(python, IS_OTHER_BUILD):
            return
        print(OTHER_BUILD, flush=True)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
            constraints.write("\n".join(part.split(maxsplit=1)[0] for part in entries.values()))
            constraints.flush()
            self.installer.run(python, entry.split(maxsplit=1)[0], "--constraint", constraints.name)

    def _kernel_folder(self, framework: str) -> Path:
        return self.laboratory / "share" / "jupyter" / "kernels" / f"horizont-{framework}"

    def _register_kernel(self, name: str) -> None:
        """Register the environment of a framework as a kernel of JupyterLab, if it has one."""
        python = self.folder(name) / "bin" / "python"
        if _error_of(python, "import ipykernel"):
            return
        self._kernel_folder(name).mkdir(parents=True, exist_ok=True)
        self._describe_kernel(name)

    def _describe_kernel(self, name: str) -> None:
        """Write the file by which Jupyter starts the kernel of a framework."""
        python = self.folder(name) / "bin" / "python"
        version = read_entries(_lock(name))[FRAMEWORKS[name].package].split()[0].partition("==")[2]
        kernel = {
            "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": f"{FRAMEWORKS[name].label} {version}",
            "language": "python",
            "metadata": {"debugger": True, "supported_encryption": ["curve"]},
            "env": {"PYTHONPATH": str(SOURCE)},
        }
        file = self._kernel_folder(name) / "kernel.json"
        file.write_text(json.dumps(kernel, indent=1), encoding="utf-8")


def _lock(environment: str) -> str:
    """Read a lock file; it is empty if there is none."""
    path = LOCKS / f"{environment}.txt"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _digest(lock: str) -> str:
    return hashlib.sha256(lock.encode()).hexdigest()


def _error_of(python: Path, code: str) -> str:
    """Run Python in an environment; return the last line of its error, or nothing."""
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        tried = subprocess.run(
            [str(python), "-c", code], env=quiet, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return str(error)
    lines = tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"]
    return lines[-1] if tried.returncode else ""


def _report(text: str) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted; the same command resumes", file=sys.stderr)
        sys.exit(130)
