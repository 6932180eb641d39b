"""The facts of a host: its address, machine, environment and code."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import psutil

import horizont
from horizont.monitoring.environment import describe_environment, machine_type

#: Two hosts with the same content run on one kernel, and so on the same CPUs.
BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")


def host_facts() -> dict[str, Any]:
    """Return the facts of this host as plain values."""
    boot_id = BOOT_ID_FILE.read_text(encoding="ascii").strip()
    return {
        "node": platform.node(),
        "boot_id": boot_id,
        # Hosts with the same content have the same network interfaces.
        "network": f"{boot_id} {os.stat('/proc/self/ns/net').st_ino}",
        "code": code_digest(),
        "machine_type": machine_type(),
        "environment": describe_environment(),
    }


def interface_with(address: str) -> str:
    """Return the name of the network interface of this host that has an address; else nothing."""
    return next(
        (
            name
            for name, addresses in psutil.net_if_addrs().items()
            if any(each.address == address for each in addresses)
        ),
        "",
    )


def differing_facts(hosts: Sequence[Mapping[str, Any]]) -> list[str]:
    """List in what hosts differ that affects their speed or their numbers."""
    facts = {
        "machine": [host["machine_type"] for host in hosts],
        "memory": [host["environment"]["memory_bytes"] for host in hosts],
        "Python": [host["environment"]["python"] for host in hosts],
        "packages": [host["environment"]["packages"] for host in hosts],
    }
    return [name for name, values in facts.items() if any(v != values[0] for v in values)]


@cache
def code_digest() -> str:
    """Return a digest of Horizont's source code on this host."""
    digest = hashlib.sha256()
    folder = Path(horizont.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
