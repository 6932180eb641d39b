"""A training step of each build of a network against the plain one: told, not judged."""

from __future__ import annotations

from bench.loops import compare
from horizont.spec import BUILDS, PLAIN, all_systems, has_compiler, parse_system

NETWORKS = ("lenet5", "resnet18")


def run() -> None:
    """Print a row for each build and network."""
    for name in all_systems():
        system = parse_system(name)
        if not system.is_local or system.build == PLAIN:
            continue
        if BUILDS[system.build].compiles and not has_compiler():
            print(f"  {system.trainer:<12} skipped: no C++ compiler")
            continue
        for network in NETWORKS:
            compare(system.framework, network, build=system.build)
