"""The sides of all comparisons are forked from interpreters that have imported their framework."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from horizont.config.system import FRAMEWORKS, framework_python, installed_version
from tests.modeldiff import environments, warm_interpreter

#: What is imported before a side starts; PyTorch imports the last one for its first optimizer.
MODULES = {
    "tensorflow": ["tensorflow", "keras"],
    "pytorch": ["torch", "torch._dynamo"],
    "mxnet": ["mxnet"],
    "jax": ["jax"],
}


#: What is imported before a side of a published model starts, by the name of its environment.
PUBLISHED = {
    "pytorch": ["torch", "torch._dynamo", "published", "timm", "torchvision", "transformers"],
    "keras-tensorflow": ["tensorflow", "keras"],
}

MODELS = Path(__file__).parent / "models"


def _serve(
    interpreter: Path, python: str, modules: Sequence[str], **variables: str
) -> subprocess.Popen[bytes]:
    """Start a server of sides, and write a program that stands for its interpreter.

    The server has these variables of the environment besides.
    """
    address = interpreter.with_suffix(".socket")
    program = str(Path(warm_interpreter.__file__))
    words = [python, program, "serve", str(address), *modules]
    null, own = subprocess.DEVNULL, {**os.environ, **variables}
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=null, stderr=null, env=own)
    while not address.exists():
        assert server.poll() is None
        time.sleep(0.01)
    words = [sys.executable, "-IS", program, "run", str(address), python]
    interpreter.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    interpreter.chmod(0o755)
    return server


@pytest.fixture(scope="session")
def interpreters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Start a server for each framework, and return what stands for the interpreters."""
    folder = tmp_path_factory.mktemp("warm")
    programs = {name: folder / name for name in filter(installed_version, FRAMEWORKS)}
    servers = [
        _serve(program, framework_python(name), MODULES.get(name, ()))
        for name, program in programs.items()
    ]
    yield programs
    for server in servers:
        server.communicate()  # its standard input ends


@pytest.fixture(scope="module", autouse=True)
def _use_interpreters(interpreters: dict[str, Path]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for framework, interpreter in interpreters.items():
            patch.setenv(f"HORIZONT_{framework.upper()}_PYTHON", str(interpreter))
        yield


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start servers for the environments of published packages that are there."""
    folder, servers = tmp_path_factory.mktemp("published"), []
    for name, modules in PUBLISHED.items():
        if (python := environments.python_of(name)).exists():
            environments.servers[name] = program = folder / name
            servers.append(_serve(program, str(python), modules, PYTHONPATH=str(MODELS)))
    yield
    environments.servers.clear()
    for server in servers:
        server.communicate()
