"""Builders of models that do what a model should not do."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np


def fine() -> Any:
    return lambda: np.ones(3)


def endless() -> Any:
    while True:
        time.sleep(0.01)


def leaves() -> Any:
    print("the last words")
    os._exit(7)


def greedy() -> Any:
    held = []
    while True:
        held.append(np.ones(2**23))  # 64 MiB
        time.sleep(0.02)


def talkative() -> Any:
    for number in range(20_000):
        print("a line to standard output", number)
        print('{"ok": false}', file=sys.stderr)
    return fine()


def forking(path: str) -> Any:
    """Start a process in a session of its own, and end without it."""
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(str(child.pid))
    os._exit(3)


def crashing() -> Any:
    ctypes.string_at(0)


def lacking() -> Any:
    import a_package_that_is_not_installed  # type: ignore[import-not-found]

    return a_package_that_is_not_installed


def raising() -> Any:
    raise ValueError("no such width\nwith details")


def reading() -> Any:
    return input("a question: ")


NUMBER = 3
