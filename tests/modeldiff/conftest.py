"""The sides of all comparisons are forked from interpreters that have imported their framework."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from horizont.config.system import FRAMEWORKS, framework_python, installed_version
from tests.modeldiff import warm_interpreter

#: What is imported before a side starts; PyTorch imports the last one for its first optimizer.
MODULES = {
    "tensorflow": ["tensorflow", "keras"],
    "pytorch": ["torch", "torch._dynamo"],
    "mxnet": ["mxnet"],
    "jax": ["jax"],
}


@pytest.fixture(scope="session")
def interpreters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Start a server for each framework, and write a program that stands for its interpreter."""
    folder = tmp_path_factory.mktemp("warm")
    program = str(Path(warm_interpreter.__file__))
    servers, programs = [], {}
    for framework in filter(installed_version, FRAMEWORKS):
        python, address = framework_python(framework), folder / f"{framework}.socket"
        words = [python, program, "serve", str(address), *MODULES.get(framework, ())]
        null = subprocess.DEVNULL
        server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=null, stderr=null)
        while not address.exists():
            assert server.poll() is None
            time.sleep(0.01)
        servers.append(server)
        programs[framework] = interpreter = folder / framework
        words = [sys.executable, "-IS", program, "run", str(address), python]
        interpreter.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        interpreter.chmod(0o755)
    yield programs
    for server in servers:
        server.communicate()  # its standard input ends


@pytest.fixture(scope="module", autouse=True)
def _use_interpreters(interpreters: dict[str, Path]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for framework, interpreter in interpreters.items():
            patch.setenv(f"HORIZONT_{framework.upper()}_PYTHON", str(interpreter))
        yield
