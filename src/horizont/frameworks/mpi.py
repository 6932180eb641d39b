"""All-reduce by MPI itself, for frameworks whose own collectives do not use it.

MPICH exchanges over TCP, also between processes of one machine, so that the links of hosts apply
to it, and by a ring, as the other systems do. MPI polls while it waits: a worker would take the
CPU from those that still compute. So an exchange is started, and tested between short sleeps.
"""

from __future__ import annotations

import os
from ctypes import CDLL, byref, c_int
from importlib import metadata
from time import sleep
from typing import Any

from numpy.typing import NDArray

from horizont.config.jobs import WorkerJob
from horizont.frameworks.endpoints import network_interface, split_endpoint
from horizont.frameworks.pmi import PmiConnection

LOST_RANK = "another rank of the MPI program was lost"

#: Seconds between two tests of an exchange.
POLL_S = 50e-6

#: The ABI that MPICH has had since its version 3.1.
_LIBRARY = "libmpi.so.12"

_THREAD_MULTIPLE = 3

#: What MPICH reads when it is loaded.
_SETTINGS = {
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "MPIR_CVAR_IALLREDUCE_DEVICE_COLLECTIVE": "0",
    "MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM": "tsp_ring",
    "MPIR_CVAR_NOLOCAL": "1",  # no shared memory
    "FI_PROVIDER": "tcp",
}


class MpiGroup:
    """The workers of a run as the ranks of an MPI program."""

    def __init__(self, job: WorkerJob) -> None:
        endpoints = job.endpoints.worker
        os.environ.update(_SETTINGS, FI_TCP_IFACE=network_interface(endpoints[job.rank]))
        self._connection = PmiConnection(
            split_endpoint(endpoints[0]), job.rank, len(endpoints), job.run.timeout_s
        )
        os.environ.update(self._connection.variables)
        path = _library_path()
        # Called by ctypes, since mpi4py holds Python's lock meanwhile, and the server needs it.
        self._library = CDLL(path)
        self._library.MPI_Init_thread(None, None, _THREAD_MULTIPLE, byref(c_int()))
        os.environ["MPI4PY_LIBMPI"] = path
        import mpi4py

        # Leaving takes all ranks: one that failed would wait for the others at its end.
        mpi4py.rc(initialize=False, finalize=False)
        from mpi4py import MPI

        self._in_place = MPI.IN_PLACE
        self._communicator = MPI.COMM_WORLD
        found = self._communicator.Get_rank(), self._communicator.Get_size()
        if found != (job.rank, len(endpoints)):  # it would train alone
            raise RuntimeError(f"rank and size are {found}, not {(job.rank, len(endpoints))}")

    def average(self, values: NDArray[Any]) -> None:
        """Replace contiguous values by their mean over the workers."""
        self._wait(self._communicator.Iallreduce(self._in_place, values))
        values /= self._communicator.Get_size()

    @property
    def is_broken(self) -> bool:
        """Whether a rank was lost, without which no exchange can end."""
        return self._connection.is_lost

    def _wait(self, request: Any) -> None:
        """Wait for an exchange."""
        while not request.Test():
            if self.is_broken:
                raise ConnectionError(LOST_RANK)
            sleep(POLL_S)

    def close(self) -> None:
        """Leave together: a worker that leaves early would disconnect the others."""
        self._wait(self._communicator.Ibarrier())
        self._library.MPI_Finalize()
        self._connection.close()


def _library_path() -> str:
    """Return the library of the package mpich; mpi4py would also load another MPI of the machine.

    Another one has another protocol to meet, and other settings.
    """
    files = metadata.files("mpich") or []
    return next((str(file.locate()) for file in files if file.name.startswith(_LIBRARY)), _LIBRARY)
