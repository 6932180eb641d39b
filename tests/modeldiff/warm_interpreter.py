"""An interpreter that has imported its framework already, for the sides of comparisons.

The tests of this folder start hundreds of sides, and most of their time is that of importing a
framework. Here a server imports it once and forks a process for each side, with the file
descriptors, the environment and the folder of the process that stands for the interpreter. The
side ends when that process ends.

::

    python warm_interpreter.py serve SOCKET MODULE...
    python warm_interpreter.py run SOCKET PYTHON ARGUMENT...

The second one leaves everything but the program of a side to the interpreter itself.
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

#: The program of a side, whose last two arguments are file descriptors.
SIDE = "runner.py"

#: Seconds between two checks of a side and of the process that stands for its interpreter.
INTERVAL_S = 0.01

#: The lowest number of a file descriptor that no side expects.
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
    """Start a side, and send its exit status; without a receiver, kill its process group."""
    text, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 8)
    side = os.fork()
    if side == 0:
        connection.close()
        execute(json.loads(text), descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    while os.waitid(os.P_PID, side, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if select.select([connection], [], [], INTERVAL_S)[0]:  # its other end is closed
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError):
                    kill(side, signal.SIGKILL)
            break
    _, status = os.waitpid(side, 0)
    with contextlib.suppress(OSError):
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def execute(message: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Execute the program of a side as an interpreter does that was started for it."""
    os.setsid()
    # First to numbers that are not among those which the side expects.
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
    status = 0
    try:
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
    """Send a side to the server, and end as it ends."""
    if len(arguments) < 2 or os.path.basename(arguments[1]) != SIDE:
        os.execv(python, [python, *arguments])
    pipes = [int(number) for number in arguments[-2:]]
    message = {
        "arguments": arguments[1:],
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "numbers": [0, 1, 2, *pipes],
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(address)
        socket.send_fds(connection, [json.dumps(message).encode()], message["numbers"])
        for number in pipes:
            os.close(number)  # so that the end of the side closes them
        status = int(connection.recv(MESSAGE_BYTES) or 1)
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    action, socket_path, *rest = sys.argv[1:]
    if action == "serve":
        serve(socket_path, rest)
    run(socket_path, rest[0], rest[1:])
