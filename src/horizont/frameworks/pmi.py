"""Process management for MPI: how ranks that no ``mpiexec`` started meet, and learn of a lost one.

An MPI library asks a server for the number of ranks and for their addresses. ``mpiexec`` usually is
this server; it also starts the ranks, and ends all of them if one ends early. Here the launcher has
started them, on whatever hosts, and the first rank serves. The protocol is PMI-1 of MPICH: lines of
``key=value`` over a connection of each rank.
"""

from __future__ import annotations

import atexit
import os
import select
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep

#: Seconds between two attempts to connect to a server that does not listen yet.
RETRY_S = 0.05

#: The longest line that is read, longer than any of MPICH.
MAX_LINE_BYTES = 65_536

_MAX_VALUE_LENGTH = 1024
_FINALIZED = "finalize_ack rc=0"


class PmiServer(socketserver.ThreadingTCPServer):
    """A server with a thread for each rank, until all ranks have finished.

    If one is lost before, all are disconnected.
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, endpoint: tuple[str, int], ranks: int) -> None:
        super().__init__(endpoint, _RankHandler)
        self.ranks = ranks
        self.values: dict[str, str] = {}
        self.barrier = threading.Barrier(ranks)
        self._connections: list[socket.socket] = []
        self._changed = threading.Condition()
        self._finished = 0
        self._is_rank_lost = False

    def start(self) -> None:
        """Serve in a thread."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def add(self, connection: socket.socket) -> None:
        """Add the connection of a rank."""
        with self._changed:
            self._connections.append(connection)

    def finish_rank(self) -> None:
        """Count a rank that has finished."""
        with self._changed:
            self._finished += 1
            self._changed.notify_all()

    def disconnect_all(self) -> None:
        """Disconnect all ranks, those that wait at a barrier, too."""
        self.barrier.abort()
        with self._changed:
            self._is_rank_lost = True
            self._changed.notify_all()
            for connection in self._connections:
                with suppress(OSError):  # closed already
                    connection.shutdown(socket.SHUT_RDWR)

    def wait_until_finished(self) -> None:
        """Block until all ranks have finished, or one is lost."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_rank_lost or self._finished == self.ranks)


class _RankHandler(socketserver.StreamRequestHandler):
    """The connection of a rank."""

    server: PmiServer

    def handle(self) -> None:
        """Serve until the rank has finished or is lost, or sends what is not in the protocol.

        A client that does not begin as a rank is disconnected without harm to the ranks.
        """
        is_rank = False
        with suppress(OSError, ValueError, KeyError, threading.BrokenBarrierError):
            while line := self.rfile.readline(MAX_LINE_BYTES):
                fields = _parse(line)
                if not is_rank:
                    if fields["cmd"] != "init":
                        return
                    is_rank = True
                    self.server.add(self.connection)
                answer = _COMMANDS[fields["cmd"]](self.server, fields)
                self.wfile.write(f"cmd={answer}\n".encode())
                if fields["cmd"] == "finalize":
                    self.server.finish_rank()
                    return
        if is_rank:
            self.server.disconnect_all()


def _parse(line: bytes) -> dict[str, str]:
    """Split a line into its fields; a value is the last one, and may contain spaces."""
    text, has_value, value = line.decode("ascii").strip().partition(" value=")
    fields = dict(part.split("=", 1) for part in text.split())
    return {**fields, "value": value} if has_value else fields


def _wait_for_all(server: PmiServer, fields: dict[str, str]) -> str:
    del fields
    server.barrier.wait()
    return "barrier_out rc=0"


def _put(server: PmiServer, fields: dict[str, str]) -> str:
    server.values[fields["key"]] = fields["value"]
    return "put_result rc=0 msg=success"


def _get(server: PmiServer, fields: dict[str, str]) -> str:
    value = server.values.get(fields["key"])
    if value is None:
        return "get_result rc=-1 msg=key_not_found value=unknown"
    return f"get_result rc=0 msg=success value={value}"


def _constant(answer: str) -> Callable[[PmiServer, dict[str, str]], str]:
    return lambda server, fields: answer


#: What answers each command.
_COMMANDS: dict[str, Callable[[PmiServer, dict[str, str]], str]] = {
    "init": _constant("response_to_init pmi_version=1 pmi_subversion=1 rc=0"),
    "get_maxes": _constant(
        f"maxes kvsname_max=64 keylen_max=64 vallen_max={_MAX_VALUE_LENGTH} rc=0"
    ),
    "get_appnum": _constant("appnum appnum=0 rc=0"),
    "get_my_kvsname": _constant("my_kvsname kvsname=run rc=0"),
    "get_universe_size": lambda server, fields: f"universe_size size={server.ranks} rc=0",
    "barrier_in": _wait_for_all,
    "put": _put,
    "get": _get,
    "finalize": _constant(_FINALIZED),
}


class PmiConnection:
    """The connection of a rank to the server, which the first rank starts.

    Attributes
    ----------
    variables
        The environment variables by which the MPI library of this process finds the connection.

    Raises
    ------
    OSError
        If the server cannot be reached in time.
    """

    def __init__(self, endpoint: tuple[str, int], rank: int, ranks: int, timeout_s: float) -> None:
        self._server = PmiServer(endpoint, ranks) if rank == 0 else None
        if self._server is not None:
            self._server.start()
        self._socket = _connect(endpoint, timeout_s)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLRDHUP)
        descriptor = str(self._socket.fileno())
        self.variables = {"PMI_FD": descriptor, "PMI_RANK": str(rank), "PMI_SIZE": str(ranks)}
        atexit.register(self._acknowledge_finalization)

    @property
    def is_lost(self) -> bool:
        """Whether the server has disconnected this rank, since another one was lost."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        """Finish; the server does so last."""
        self._socket.sendall(b"cmd=finalize\n")
        self._socket.recv(len(f"cmd={_FINALIZED}\n"), socket.MSG_WAITALL)
        if self._server is not None:
            self._server.wait_until_finished()

    def _acknowledge_finalization(self) -> None:
        """Disconnect from the server, and let the MPI library read its last answer.

        MPICH finishes once more while the process exits, when no thread of a server in it runs.
        """
        library, here = socket.socketpair()
        here.sendall(f"cmd={_FINALIZED}\n".encode())
        here.detach()  # open until the process has ended
        os.dup2(library.fileno(), self._socket.detach())


def _connect(endpoint: tuple[str, int], timeout_s: float) -> socket.socket:
    deadline_s = monotonic() + timeout_s
    while True:
        try:
            connection = socket.create_connection(endpoint, timeout=timeout_s)
        except ConnectionRefusedError:
            if monotonic() > deadline_s:
                raise
            sleep(RETRY_S)
        else:
            connection.settimeout(None)
            return connection
