"""Wall clocks that can be set while a run uses them, without setting that of the machine.

A preloaded library reads them; on hosts with agents, each host has a clock of its own.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import psutil

from horizont.errors import UserError

SOURCE = Path(__file__).with_name("settable_clock.c")

#: The folder of the clocks, and the host whose clock a process has, if not that of all others.
FOLDER_VARIABLE, HOST_VARIABLE = "HORIZONT_CHAOS_CLOCKS", "HORIZONT_CHAOS_HOST"


def find_compiler() -> str | None:
    """Return the path of a C compiler, if there is one."""
    return shutil.which("cc")


def build_library(folder: Path) -> Path | None:
    """Compile the library into a folder; return None without a C compiler."""
    compiler, library = find_compiler(), folder / "settable_clock.so"
    if compiler is None:
        return None
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError("C compiler", compiler, f"one that works ({done.stderr.strip()})")
    return library


def clock_variables(library: Path | None, folder: Path) -> dict[str, str]:
    """Create the folder of the clocks; return the variables of the processes that have them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if library is None:
        return {}
    preloaded = " ".join(filter(None, [str(library), os.environ.get("LD_PRELOAD")]))
    return {"LD_PRELOAD": preloaded, FOLDER_VARIABLE: str(folder)}


def set_clock(process: psutil.Process, step_s: float) -> None:
    """Set the wall clock of the host of a process ahead of the machine's, in seconds."""
    variables = process.environ()
    clock = Path(variables[FOLDER_VARIABLE], variables.get(HOST_VARIABLE, "machine"))
    with clock.open("r+b") as file:
        file.write(struct.pack("d", step_s))
