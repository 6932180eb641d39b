"""Install exactly the entries of lock files, by uv, or by pip where uv cannot be used.

uv needs a third of pip's time, but has no access to pip's settings: they are passed to it, so that
an index or a folder of wheels that is set up for pip is found in any case.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from functools import cached_property
from pathlib import Path

#: Options of pip's configuration, and those of uv with the same meaning.
UV_OPTIONS = {
    "find-links": "--find-links",
    "index-url": "--default-index",
    "extra-index-url": "--index",
}


def read_entries(lock: str) -> dict[str, str]:
    """Split the text of a lock file into its packages, each with its hashes."""
    parts = re.findall(r"^[a-z0-9][a-z0-9-]*==.*\n(?:    --hash=.*\n?)*", lock, re.M)
    return {part.partition("==")[0]: part for part in parts}


class Installer:
    """Creates virtual environments and installs packages into them.

    Parameters
    ----------
    python
        The interpreter of an environment that has pip.
    uv_entry
        The entry of uv in the lock file, which is installed there.
    """

    def __init__(self, python: Path, uv_entry: str) -> None:
        self._python = python
        self._uv_entry = uv_entry

    def create(self, folder: Path) -> None:
        """Create a virtual environment, in the place of what is there.

        Raises
        ------
        SystemExit
            If it cannot be created.
        """
        if self._uv:
            command = [*self._uv, "venv", "--quiet", "--clear", "--python", str(self._python)]
        else:
            command = [str(self._python), "-m", "venv", "--clear"]
        if subprocess.run([*command, str(folder)], check=False).returncode:
            sys.exit(f"error: {folder} could not be created; the reason is above")

    def install(self, python: Path, entries: str, *, silent: bool = False) -> bool:
        """Install exactly the given entries of a lock file; return whether it succeeded."""
        if not entries:
            return True
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(entries)
            file.flush()
            words = ("--no-deps", "--require-hashes", "--requirement", file.name)
            return self.run(python, *words, silent=silent)

    def run(self, python: Path, *words: str, silent: bool = False) -> bool:
        """Run `install` with options that uv and pip share; print its errors unless silent."""
        if self._uv:
            command = [*self._uv, "pip", "install", "--quiet"]
            if sys.dont_write_bytecode:  # or else the first import writes it, once
                command.append("--compile-bytecode")
            command += ["--python", str(python), *self._uv_settings]
        else:
            command = [str(python), "-m", "pip", "install", "--quiet"]
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        if done.returncode and not silent:
            errors = [line for line in done.stderr.splitlines() if not line.startswith("WARNING")]
            print("\n".join(f"    {line}" for line in errors[-8:]))
        return done.returncode == 0

    @cached_property
    def _uv(self) -> list[str]:
        """The command of uv, which is installed first if necessary; empty if it cannot be used."""
        command = [str(self._python), "-m", "uv"]
        if not _succeeds([*command, "--version"]) and self._uv_entry:
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
                file.write(self._uv_entry)
                file.flush()
                words = ("--quiet", "--no-deps", "--require-hashes", "--requirement", file.name)
                _succeeds([str(self._python), "-m", "pip", "install", *words])
        return command if _succeeds([*command, "--version"]) else []

    @cached_property
    def _uv_settings(self) -> list[str]:
        """The index and the folders of wheels in pip's settings, as options of uv."""
        command = [str(self._python), "-m", "pip", "config", "list"]
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        # Each version has the hashes of the lock, whichever index it comes from.
        options = {"--index-strategy unsafe-best-match": None}
        for name, value in re.findall(r"^\S*?\.([a-z-]+)=('.*'|\".*\")$", listed, re.M):
            for word in ast.literal_eval(value).split() if name in UV_OPTIONS else ():
                options[f"{UV_OPTIONS[name]} {word}"] = None
        return [part for option in options for part in option.split(" ", 1)]


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
