"""The end of a sampler: its stream becomes the table, and a report tells what was missed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from horizont.errors import UserError
from horizont.monitoring.rows import FORMAT, read_spill
from horizont.monitoring.samplerspec import SamplerFiles
from horizont.records.files import write_json, write_table


def finish(files: SamplerFiles, ended: str, report: dict[str, Any]) -> Path:
    """Write the report, and then the table, which takes long if it is large.

    Parameters
    ----------
    files
        Where the stream is and where the results go.
    ended
        Why sampling stopped.
    report
        What else is to be told.

    Raises
    ------
    UserError
        If the folder or the stream is gone, or the folder cannot be written.
    """
    try:
        table = read_spill(files.spill)
    except FileNotFoundError:
        allowed = "a folder that stays; it was removed, and all samples with it"
        raise UserError("sampler.folder", str(files.folder), allowed) from None
    write_json(files.report, {"format": FORMAT, "ended": ended, "rows": len(table), **report})
    write_table(files.table, table)
    files.remove_temporary()
    return files.table
