"""A training step of each variant of a network relative to the default one, without a goal."""

from __future__ import annotations

from bench.loops import compare
from horizont.config.system import DEFAULT, all_systems, has_compiler, parse_system, qualified_name

NETWORKS = ("lenet5", "resnet18")


def run() -> None:
    """Print a row for each variant and network."""
    for name in all_systems():
        system = parse_system(name)
        if not system.is_local or system.variant == DEFAULT:
            continue
        if "cpu" not in system.devices:
            continue
        if system.variant_info.needs_compiler and not has_compiler():
            trainer = qualified_name(system.framework, system.variant)
            print(f"  {trainer:<12} skipped: no C++ compiler")
            continue
        for network in NETWORKS:
            compare(system.framework, network, variant=system.variant)
