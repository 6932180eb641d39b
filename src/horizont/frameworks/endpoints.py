"""Endpoints of the processes of a run, ``<host>:<port>``."""

from __future__ import annotations

import socket

import psutil


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Return host and port."""
    host, port = endpoint.rsplit(":", 1)
    return host, int(port)


def network_interface(endpoint: str) -> str:
    """Return the network interface that has the address of an endpoint of this host."""
    address = socket.gethostbyname(split_endpoint(endpoint)[0])
    for name, addresses in psutil.net_if_addrs().items():
        if any(entry.address == address for entry in addresses):
            return name
    return "lo"
