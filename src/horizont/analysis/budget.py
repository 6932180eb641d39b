"""What distribution costs: as measured, and as the published studies had it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import nan
from statistics import fmean

import pandas as pd

from horizont.analysis.frames import systems_of
from horizont.analysis.phases import phases, step_times
from horizont.records import Record
from horizont.spec import parse_system


def budget(records: Sequence[Record]) -> pd.DataFrame:
    """Put the measured cost of distribution beside its estimate by subtraction.

    Published studies took, for the time of the network, that of a distributed training less that
    of a single process with one worker's share of the examples. Here transfer and waiting are
    measured.

    Returns
    -------
    pandas.DataFrame
        A row a distributed system, in seconds of a worker's step: ``bare_s``; ``twin_s``, the
        bare step of its framework's single process, NaN if there is none; ``subtracted_s`` = bare
        - twin; ``communication_s`` and ``waiting_s`` of the instrumented steps, after the backward
        pass, and ``measured_s``, their sum. ``exchange_s`` and ``overlap_s`` are the whole exchange
        of a bare step and how much of it went on beside the backward pass, by the framework's
        own clocks; NaN where it has none.
    """
    times = step_times(records).set_index("system")["bare_s"]
    parts = phases(records).pivot(index="system", columns="part", values="mean_s")
    rows = []
    for system in systems_of(records):
        parsed = parse_system(system)
        if parsed.is_local:
            continue
        twin_s = float(times.get(f"{parsed.framework}/local", nan))
        own = parts.loc[system]
        measured = own[["communication", "waiting"]]
        results = [record.result for record in records if record.run.system.name == system]
        rows.append(
            {
                "system": system,
                "bare_s": times[system],
                "twin_s": twin_s,
                "subtracted_s": times[system] - twin_s,
                "communication_s": measured["communication"],
                "waiting_s": measured["waiting"],
                "measured_s": measured.sum(min_count=1),
                "exchange_s": _mean(result.exchange_s for result in results),
                "overlap_s": _mean(result.overlap_s for result in results),
            }
        )
    return pd.DataFrame(rows)


def _mean(values: Iterable[float | None]) -> float:
    """Average what was measured; NaN if nothing was."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else nan
