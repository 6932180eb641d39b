"""``python -m bench [NAME ...]``: run some benchmarks, or all of them, and print their numbers."""

from __future__ import annotations

import sys

from bench import (
    agents,
    analysis,
    builds,
    coverage,
    hosts,
    loops,
    networks,
    phases,
    quality,
    sampler,
    study,
    wire,
)

BENCHMARKS = {
    "agents": agents.run,
    "analysis": analysis.run,
    "builds": builds.run,
    "coverage": coverage.run,
    "hosts": hosts.run,
    "loops": loops.run,
    "networks": networks.run,
    "phases": phases.run,
    "quality": quality.run,
    "sampler": sampler.run,
    "study": study.run,
    "wire": wire.run,
}


def main(names: list[str]) -> int:
    """Run the named benchmarks one after the other."""
    if {"-h", "--help"} & set(names):
        print(f"{(__doc__ or '').strip()}\n\nbenchmarks: {', '.join(BENCHMARKS)}")
        return 0
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        print(f"error: benchmark: {unknown[0]!r}; allowed: {list(BENCHMARKS)}")
        return 2
    for name in names or list(BENCHMARKS):
        print(
            f"\n{name}: {(sys.modules[f'bench.{name}'].__doc__ or '').splitlines()[0]}", flush=True
        )
        BENCHMARKS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
