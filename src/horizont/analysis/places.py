"""Where the runs of a study lie on disk: those that are over, and those in the making."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from horizont.records.record import writer_alive

#: ``abandoned``: its launcher has died; ``gone``: nothing is left, as after an interrupt.
State = Literal["running", "over", "abandoned", "gone"]

_MAKING = re.compile(r"\.(?P<key>.+)\.\d+\.tmp")


@dataclass(frozen=True)
class Located:
    """A folder of a run at this moment."""

    folder: Path
    state: State


def locate(final: Path) -> Located:
    """Find the folder of a run, in the making or finished.

    Parameters
    ----------
    final
        Where its record is, or will be. A record in the making comes before an earlier one
        that failed and is being made anew.
    """
    for folder in final.parent.glob(f".{final.name}.*.tmp"):
        if _MAKING.fullmatch(folder.name):
            return Located(folder, "running" if writer_alive(folder) else "abandoned")
    return Located(final, "over" if (final / "result.json").exists() else "gone")


def find_runs(root: Path) -> list[Path]:
    """List the runs below a folder of records, those in the making first, then the newest first.

    Returns
    -------
    list of Path
        Where the record of each run is, or will be; see `locate`.
    """
    found: dict[Path, tuple[bool, float]] = {}
    for spec in root.glob("*/*/*/spec.json"):
        making = _MAKING.fullmatch(spec.parent.name)
        final = spec.parent.with_name(making["key"]) if making else spec.parent
        try:
            rank = (making is not None, spec.stat().st_mtime)
        except FileNotFoundError:  # moved just now; the next look finds it
            continue
        found[final] = max(rank, found.get(final, rank))
    return sorted(found, key=lambda final: found[final], reverse=True)
