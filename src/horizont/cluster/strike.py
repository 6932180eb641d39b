"""How an incident is carried out, with no more rights than those of the user."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

from horizont.cluster.group import ProcessGroup
from horizont.cluster.hosts import Hosts
from horizont.spec import Incident

#: A slowed process is let run and stopped in turns; a turn of both takes so long, in seconds.
TURN_S = 0.1


def strike(
    incident: Incident, victim: ProcessGroup, start_again: Callable[[], None], hosts: Hosts
) -> Iterator[float]:
    """Carry an incident out, piece by piece.

    Yields
    ------
    float
        Seconds after which the next piece is due. It is over when there is none.
    """
    if incident.kind == "slowed":
        yield from _slow(incident, victim)
        return
    match incident.kind:
        case "killed" | "restarted":
            victim.signal(signal.SIGKILL)
        case "frozen":
            victim.signal(signal.SIGSTOP)
        case "cut_off":
            hosts.cut_off(victim.planned.host)
    if incident.for_s is None:
        return
    yield incident.for_s
    match incident.kind:
        case "restarted":
            start_again()
        case "frozen":
            victim.signal(signal.SIGCONT)
        case "cut_off":
            hosts.join(victim.planned.host)


def _slow(incident: Incident, victim: ProcessGroup) -> Iterator[float]:
    """Stop a process and let it go on, in turns, so that it runs for a share of the time."""
    assert incident.share is not None
    end_s = time.monotonic() + (incident.for_s or float("inf"))
    while time.monotonic() < end_s:
        victim.signal(signal.SIGSTOP)
        yield TURN_S * (1 - incident.share)
        victim.signal(signal.SIGCONT)
        yield TURN_S * incident.share
