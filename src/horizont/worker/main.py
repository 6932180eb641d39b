"""Reading a job and doing it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from horizont.errors import UserError
from horizont.measure.lean import keep_out_what_reports_need
from horizont.spec import ProcessJob, TraceJob, validate
from horizont.worker.lifeline import die_with_parent


def main(argv: list[str]) -> int:
    """Do the job that the named file describes.

    Returns
    -------
    int
        0 if it was done, 2 for a user's mistake; other errors end with a traceback in the log.
    """
    die_with_parent()
    keep_out_what_reports_need()
    try:
        do(json.loads(Path(argv[1]).read_text(encoding="utf-8")))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def do(job: dict[str, object]) -> None:
    """Do a job of either kind; imports follow the kind, so that start-up pays for what it uses."""
    if job["kind"] == "trace":
        from horizont.worker.trace import trace

        trace(validate(TraceJob, job, "job"))
    else:
        from horizont.records import append_event
        from horizont.worker.train import train

        described = validate(ProcessJob, job, "job")
        try:
            train(described)
        except BaseException as error:
            # Here and now: a framework may take long to take itself down.
            words = " ".join(f"{type(error).__name__}: {error}".split())
            append_event(described.folder / "events.jsonl", "error", words=words[:500])
            raise
