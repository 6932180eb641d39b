"""Runs as this machine can make them."""

from __future__ import annotations

from horizont.cluster.emulated import lacking
from horizont.spec import Run, Topology, installed_version


def obstacle(run: Run) -> str:
    """Tell why a run cannot be made here; nothing if it can.

    Emulated hosts whose links and processors are not limited can be done without: see
    :func:`grounded`.
    """
    if installed_version(run.system.framework) is None:
        return f"{run.system.framework} is not installed"
    return lacking(run.topology)


def grounded(run: Run) -> Run:
    """Put a run on the machine's own address if it cannot have emulated hosts and can do without.

    What it then is stands in its record: the engine `local`.
    """
    topology = run.topology
    bound = not topology.link.is_free or topology.host_cpus is not None
    if bound or not lacking(topology):
        return run
    kept = {"workers", "servers", "threads", "sharding"}
    return run.model_copy(update={"topology": Topology(**topology.model_dump(include=kept))})
