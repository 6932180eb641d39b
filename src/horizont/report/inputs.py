"""The chapter on input pipelines: its tables and its figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from horizont import analysis
from horizont.records import Record
from horizont.report import figures, words
from horizont.report.picture import Picture
from horizont.report.tables import Table, plain_table, shortened
from horizont.spec import READERS, Experiment, ReaderTraits, parse_system


def input_picture(records: Sequence[Record]) -> Picture:
    """Draw what each input gives alone, and what the training waits for."""
    caption = (
        "Left: seconds that a batch takes from the pipeline alone, without a network; open: mean "
        "of the first epoch, filled: of those after it. Right: the instrumented step of the "
        "training; the coloured part is the wait for the next batch. A star: the reader knows the "
        "order of the files only. Medians over the runs."
    )
    found = analysis.inputs(records)
    return Picture(figures.input_rows(found), "input", caption, found)


def input_table(records: Sequence[Record]) -> Table:
    """Write what each input gives and takes, a part for each system."""
    rows = [_row(row) for _, row in analysis.inputs(records).iterrows()]
    numbers = set(rows[0]) - {"system", "input", "note"} if rows else ()
    return plain_table(pd.DataFrame(rows), numbers, group_by="system" if rows else None)


def _row(row: pd.Series) -> dict[str, str]:
    return {
        "system": words.system(row["system"]),
        "input": row["input"] + ("" if row["ordered"] else " *"),
        "first, ms": _scaled(row["first_s"], 1e3, ".1f"),
        "first epoch": _scaled(row["first_epoch_s"], 1e3, ".2f"),
        "later": _scaled(row["later_s"], 1e3, ".2f"),
        "wait": _scaled(row["wait_s"], 1e3, ".2f"),
        "of the step": _scaled(row["wait_share"], 1, ".1%"),
        "bare: blocked": _scaled(row["blocked_s"], 1e3, ".2f"),
        "bare step": _scaled(row["step_s"], 1e3, ".1f"),
        "over memory": _scaled(row["extra_s"], 1e3, "+.1f"),
        "memory, MiB": _scaled(row["memory_bytes"], 2**-20, ".0f"),
        "pages kept": _scaled(row["resident_share"], 1, ".0%"),
        "runs": f"{row['ok']} of {row['planned']}",
        "note": shortened(row["reason"]),
    }


def _scaled(value: float, factor: float, form: str) -> str:
    return "–" if pd.isna(value) else format(value * factor, form)


def reader_table(settings: Experiment) -> Table:
    """Tell what each reader of an experiment's frameworks is and can do."""
    used = {parse_system(name).framework for name in settings.systems}
    rows = [_reader(name, each) for name, each in READERS.items() if each.framework in used]
    return replace(plain_table(pd.DataFrame(rows), group_by="framework"), measured=False)


def _reader(name: str, traits: ReaderTraits) -> dict[str, str]:
    beside = traits.workers if traits.workers != "none" else "nothing"
    ahead = "with " + traits.workers if traits.workers == "processes" else "yes"
    return {
        "framework": words.framework(traits.framework),
        "reader": name,
        "made of": traits.means,
        "order": "as given" if traits.ordered else "of the files",
        "reads beside": beside,
        "fetches ahead": ahead if traits.ahead_alone != 1 else "one batch",
        "the cache keeps": traits.keeps + (", always" if traits.always_cached else ""),
    }
