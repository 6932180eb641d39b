"""How MXNet's processes find each other: the variables of its parameter-server library."""

from __future__ import annotations

import os
import socket

from horizont.spec import ProcessJob


def enter(job: ProcessJob) -> None:
    """Take the job's role in this process; the next KVStore that it creates joins the others."""
    os.environ.update(role_variables(job))


def role_variables(job: ProcessJob) -> dict[str, str]:
    """Tell the variables that make a process what its job says.

    The scheduler is the meeting place. Each process listens on the address of its endpoint
    alone: left to itself, MXNet would take the first interface that is not the loopback.
    """
    endpoints = job.endpoints
    root_host, root_port = _address(endpoints.scheduler[0])
    own_host, own_port = _address(getattr(endpoints, job.role)[job.rank])
    return {
        "DMLC_ROLE": job.role,
        "DMLC_PS_ROOT_URI": root_host,
        "DMLC_PS_ROOT_PORT": root_port,
        "DMLC_NUM_WORKER": str(len(endpoints.worker)),
        "DMLC_NUM_SERVER": str(len(endpoints.server)),
        "DMLC_NODE_HOST": own_host,
        "PORT": own_port,
    }


def _address(endpoint: str) -> tuple[str, str]:
    """Take an endpoint apart; MXNet binds to numeric addresses only."""
    host, port = endpoint.rsplit(":", 1)
    return socket.gethostbyname(host), port
