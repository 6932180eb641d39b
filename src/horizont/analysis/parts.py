"""The parts of a step that two systems can be compared by.

Systems measure different phases. What one of them does not tell apart is a part of something
else there: on a parameter server the update is in the communication. Set against each other are
therefore only parts that both of them know, alone or with others: what one holds together is
held together for both.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from horizont.analysis.frames import PARTS
from horizont.spec import parse_system

#: What tells a part of several phases: `communication + update`.
AND = " + "

#: The parts that are there only because there are several workers.
REMOTE = frozenset({"communication", "waiting"})

#: What the communication holds where it is not told apart: the update of a server, and the time
#: behind other workers of one that waits for nobody.
_IN_COMMUNICATION = frozenset({"waiting", "update"})


def known_parts(parts: pd.DataFrame) -> frozenset[str]:
    """List the parts that are known of all runs.

    Parameters
    ----------
    parts
        Of `horizont.analysis.run_parts`, the rows of one system.
    """
    return frozenset(part for part in PARTS if len(parts) and parts[part].notna().all())


def common_parts(
    a: str, known_a: frozenset[str], b: str, known_b: frozenset[str]
) -> list[tuple[str, ...]]:
    """Group the phases so that each group is known of both systems.

    Parameters
    ----------
    a, b
        The systems.
    known_a, known_b
        The parts that were measured of each, as of `known_parts`.

    Returns
    -------
    list of tuple
        Every part that either knows, once, in the order of `PARTS`. A single process does not
        communicate: there, what is not known is nothing and joins no group.
    """
    groups = {part: {part} for part in PARTS if part in known_a | known_b}
    for system, own in ((a, known_a), (b, known_b)):
        absent = REMOTE if parse_system(system).is_local else frozenset()
        for part in [part for part in groups if part not in own | absent]:
            _join(groups, part, _holder(part, own))
    found = [tuple(part for part in PARTS if part in group) for group in groups.values()]
    return list(dict.fromkeys(found))


def _holder(part: str, known: Iterable[str]) -> str:
    """Tell where the time of a part is that a system does not tell apart."""
    inside = part in _IN_COMMUNICATION and "communication" in known
    return "communication" if inside else "other"


def _join(groups: dict[str, set[str]], part: str, other: str) -> None:
    together = groups[part] | groups.setdefault(other, {other})
    for member in together:
        groups[member] = together


def is_remote(group: Iterable[str]) -> bool:
    """Tell whether a group of phases has to do with other processes."""
    return not REMOTE.isdisjoint(group)


def named(group: Iterable[str]) -> str:
    """Name a group of phases."""
    return AND.join(group)
