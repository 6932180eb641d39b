"""Interpreters that have imported their framework already, for tests of what frameworks compute.

Tests start hundreds of processes, and most of their time is that of importing a framework. Here a
server imports it once and forks a process for each program, with the file descriptors, the
environment and the folder of the process that stands for the interpreter. The program ends when
that process ends. Tests of processes, of resources and of times use the interpreters themselves.

::

    python warm_interpreter.py serve SOCKET MODULE...
    python warm_interpreter.py run SOCKET PYTHON ARGUMENT...

The second one executes modules and the sides of comparisons; other programs it leaves to the
interpreter itself.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

#: The program of the sides of comparisons, whose last arguments are file descriptors.
SIDE = "runner.py"

#: Seconds between two checks of a program and of the process that stands for its interpreter.
INTERVAL_S = 0.01

#: The lowest number of a file descriptor that no program expects.
FIRST_COPY = 200

MESSAGE_BYTES = 1 << 17


def serve(address: str, modules: list[str]) -> NoReturn:
    """Import the modules, and fork a process for each connection until standard input ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(16)
        for module in modules:
            importlib.import_module(module)
        gc.freeze()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors are not awaited
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                os._exit(0)
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                supervise(connection)
            connection.close()


def supervise(connection: socket.socket) -> NoReturn:
    """Start a program, and send its exit status; without a receiver, kill its process group."""
    text, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 8)
    program = os.fork()
    if program == 0:
        connection.close()
        execute(json.loads(text), descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    while os.waitid(os.P_PID, program, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if select.select([connection], [], [], INTERVAL_S)[0]:  # its other end is closed
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError):
                    kill(program, signal.SIGKILL)
            break
    _, status = os.waitpid(program, 0)
    with contextlib.suppress(OSError):
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def execute(message: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Execute a program as an interpreter does that was started for it."""
    os.setsid()
    # First to numbers that are not among those which the program expects.
    copies = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, FIRST_COPY) for each in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for copy, number in zip(copies, message["numbers"], strict=True):
        os.dup2(copy, number)
    os.environ.clear()
    os.environ.update(message["environment"])
    os.chdir(message["folder"])
    faulthandler.enable()
    sys.argv = message["arguments"]
    is_module = message["is_module"]
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:1] = [os.getcwd() if is_module else os.path.dirname(sys.argv[0]), *paths]
    status = 0
    try:
        if is_module:
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as an interpreter ends
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def run(address: str, python: str, arguments: list[str]) -> NoReturn:
    """Send a program to the server, and end as it ends."""
    option, program, *_ = [*arguments, "", ""]
    if is_module := option == "-m":
        further = []
    elif os.path.basename(program) == SIDE:
        further = [int(number) for number in arguments[-2:]]
    else:
        os.execv(python, [python, *arguments])
    message = {
        "is_module": is_module,
        "arguments": arguments[1:],
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "numbers": [0, 1, 2, *further],
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(address)
        socket.send_fds(connection, [json.dumps(message).encode()], message["numbers"])
        for number in further:
            os.close(number)  # so that the end of the program closes them
        status = int(connection.recv(MESSAGE_BYTES) or 1)
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    action, socket_path, *rest = sys.argv[1:]
    if action == "serve":
        serve(socket_path, rest)
    run(socket_path, rest[0], rest[1:])
