"""What came of the incidents: a row a system and incident."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from horizont.analysis.frames import in_order
from horizont.records import Aftermath, Fate, Record


def incidents(records: Sequence[Record]) -> pd.DataFrame:
    """Build the table of incidents.

    Returns
    -------
    pandas.DataFrame
        A row a run, in the order of systems and of the settings: ``system``, ``incident``,
        ``block``; ``steps`` that the slowest of the untouched had made in the end, and
        ``planned``; ``noticed_s``, from the incident to the first error elsewhere, NaN if there
        was none, and ``how``: that error, ``went on``, or ``hang``; ``survivors``, the processes
        that had not ended badly; ``weights``, who of them still held all weights; ``outcome``:
        ``goes on`` to its end, ``ends`` or ``hangs``; ``again``, whether a process that was
        started again was taken in; ``reason`` of a run to which nothing could happen; ``record``.
    """
    order = {name: place for place, name in enumerate(in_order(r.run.system.name for r in records))}
    wanted = [record for record in records if record.run.incident is not None]
    wanted.sort(key=lambda record: (order[record.run.system.name], record.run.block))
    return pd.DataFrame([_row(record) for record in wanted])


def _row(record: Record) -> dict[str, Any]:
    run, found = record.run, record.aftermath()
    assert run.incident is not None
    told = _told(record, found) if found is not None else {"reason": record.result.reason}
    return {
        "system": run.system.name,
        "incident": run.incident.name,
        "block": run.block,
        "planned": run.steps.total,
        **told,
        "record": record.folder.name,
    }


def _told(record: Record, found: Aftermath) -> dict[str, Any]:
    noticed = found.noticed
    return {
        "steps": steps_of_others(found),
        "noticed_s": noticed.noticed_s if noticed else float("nan"),
        "how": _how(found),
        "survivors": ", ".join(fate.process for fate in survivors(record, found)),
        "weights": ", ".join(holders(record, found)),
        "outcome": OUTCOMES[found.over],
        "again": found.taken_in,
        "reason": "",
    }


#: Why the launcher stopped waiting -> what that means for the training.
OUTCOMES = {"finished": "goes on", "ended": "ends", "stalled": "hangs", "deadline": "hangs"}


def steps_of_others(found: Aftermath) -> int:
    """Tell the steps that the slowest worker beside the victim had made in the end.

    A leading process that counts for its workers is taken as one; where only the victim counts,
    its own steps are told.
    """
    counted = [fate for fate in found.fates if fate.steps_before is not None and fate.life == 1]
    others = [fate for fate in counted if fate.process != found.process] or counted
    return min(((f.steps_before or 0) + (f.steps_after or 0) for f in others), default=0)


def _how(found: Aftermath) -> str:
    if found.noticed is not None:
        return found.noticed.words or f"{found.noticed.process} ended without a word"
    return "went on" if found.over == "finished" else "no sign"


def survivors(record: Record, found: Aftermath) -> list[Fate]:
    """List the processes that had not ended badly; one that is frozen for good is none."""
    incident = record.run.incident
    assert incident is not None
    lost = incident.kind in ("frozen", "cut_off") and incident.for_s is None
    return [
        fate
        for fate in found.fates
        if fate.end in ("finished", "running") and not (lost and fate.process == found.process)
    ]


def holders(record: Record, found: Aftermath) -> list[str]:
    """Tell which survivors hold all weights: any one worker, or all of the servers."""
    alive = survivors(record, found)
    names = []
    for role in record.run.system.traits.weights_on:
        own = [fate.process for fate in alive if fate.role == role and fate.life == 1]
        enough = record.run.topology.servers if role == "server" else 1
        if len(own) >= enough:
            names += own
    return names
