"""The program that an engine starts on each host: ``python -m horizont.launchers.agent``.

Its arguments are the address of the launcher, the folder of its temporary files and its number
among the agents; without a number it is the rank that Slurm or MPI has given it. The secret of the
session is in the environment, or the first line of standard input.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time
from pathlib import Path

from horizont.errors import ConnectionRefused, UserError
from horizont.launchers.agent.facts import host_facts, interface_with
from horizont.launchers.agent.files import RunFiles
from horizont.launchers.agent.host import HostAgent
from horizont.launchers.agent.wire import SECRET_VARIABLE, Channel, is_secret

#: Where a process finds its number among those that an engine has started; Slurm last, whose
#: variable is also in the environment of a program that MPI starts in a job.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")

CONNECT_TIMEOUT_S, RETRY_S = 5.0, 0.5


def main() -> int:
    """Serve one session or, if it shall wait for launchers, one after the other."""
    parser = argparse.ArgumentParser(prog="horizont.launchers.agent", description=__doc__)
    parser.add_argument("--launcher", required=True, help="its address, HOST:PORT")
    parser.add_argument("--folder", required=True, type=Path, help="of temporary files")
    parser.add_argument("--number", type=int, default=None)
    parser.add_argument("--lease", type=float, default=3.0, help="seconds without the launcher")
    parser.add_argument(
        "--wait", type=float, default=0.0, help="seconds to wait for a launcher, again and again"
    )
    arguments = parser.parse_args()
    secret = os.environ.pop(SECRET_VARIABLE, "") or sys.stdin.readline().strip()
    if not is_secret(secret):
        parser.error(f"no secret in {SECRET_VARIABLE} or on standard input")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    sessions = 0
    while (problem := _serve_session(arguments, secret)) is None:
        sessions += 1
        if not arguments.wait:
            return 0
        time.sleep(RETRY_S)
    if sessions:  # the study is over
        return 0
    print(f"error: {problem}", file=sys.stderr)
    return 2 if isinstance(problem, UserError) else 1


def _serve_session(arguments: argparse.Namespace, secret: str) -> Exception | None:
    """Connect to the launcher and do what it asks for; return why that was not possible."""
    facts = host_facts()  # before the launcher waits for them
    try:
        connection = _connect(arguments.launcher, arguments.wait)
        channel = Channel(connection, secret, "agent")
    except (OSError, ConnectionRefused, ValueError) as error:
        return ConnectionError(f"no launcher at {arguments.launcher}: {error}")
    address = connection.getsockname()[0]
    number = _rank() if arguments.number is None else arguments.number
    hello = {"kind": "hello", "number": number, "address": address}
    hello["interface"] = interface_with(address)
    try:
        with RunFiles(arguments.folder) as files:
            channel.send({**hello, "folder": str(arguments.folder), **facts})
            agent = HostAgent(channel, files, address, arguments.lease)
            agent.serve()
            if not agent.was_served:
                return ConnectionError(f"{arguments.launcher} does not know the secret")
    except UserError as error:
        return error
    except OSError as error:
        return ConnectionError(f"the launcher at {arguments.launcher} is gone: {error}")
    finally:
        channel.close()
    return None


def _rank() -> int:
    return next((int(os.environ[name]) for name in RANK_VARIABLES if name in os.environ), 0)


def _connect(launcher: str, wait_s: float) -> socket.socket:
    """Connect to the launcher, if it can be reached within some seconds."""
    host, _, port = launcher.rpartition(":")
    end_s = time.monotonic() + wait_s
    while True:
        try:
            return socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S)
        except OSError:
            if time.monotonic() > end_s:
                raise
        time.sleep(RETRY_S)


if __name__ == "__main__":
    sys.exit(main())
