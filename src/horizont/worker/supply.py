"""The input pipeline before the training: what it gives by itself, and what it needs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from horizont.frameworks.base import OnDisk, Trainer
from horizont.measure import now_s
from horizont.measure.memory import tree_bytes
from horizont.measure.pagecache import drop_pages, read_pages, resident_share
from horizont.records import write_table
from horizont.records.result import InputFacts
from horizont.worker.session import Session

#: This process's own folder, by a short name. Loader processes hand batches over through sockets
#: in the folder for temporary files, and the name of a socket may have some hundred bytes only:
#: with a longer one the loader fails without a word to its parent, which waits for ever.
HERE = "/proc/self/cwd"


def start_input(session: Session, trainer: Trainer) -> tuple[Iterator[Any], InputFacts | None]:
    """Start the pipeline and take from it what is to be taken before the first step.

    Returns
    -------
    tuple
        The batches of the training, and what the pipeline needed, if it was drained.
    """
    if session.job.run.input.workers:
        tempfile.tempdir = HERE
    drained = session.job.run.steps.drained
    before = tree_bytes() if drained else 0
    batches = trainer.batches(session.examples)
    warm(session)
    resident = cool(session)
    if not drained:
        return batches, None
    write_table(session.job.folder / "input.parquet", drain(batches, drained, _epoch(session)))
    grown = tree_bytes() - before + (session.examples_bytes or 0)
    cool(session)
    session.note("drained")
    return batches, InputFacts(memory_bytes=grown, resident_share=resident)


def drain(batches: Iterator[Any], count: int, epoch: int) -> pa.Table:
    """Take batches as fast as they come.

    Parameters
    ----------
    count, epoch
        How many; how many make an epoch.

    Returns
    -------
    pyarrow.Table
        A row a batch: ``batch``, ``epoch``, counted from 0, and ``batch_s``, the seconds it took.
    """
    batch_s = np.empty(count)
    for number in range(count):
        before_s = now_s()
        next(batches)
        batch_s[number] = now_s() - before_s
    numbers = np.arange(count)
    return pa.table({"batch": numbers, "epoch": numbers // epoch, "batch_s": batch_s})


def _epoch(session: Session) -> int:
    """Count the batches of an epoch; a single process trains, so they are the whole epoch's."""
    return max(1, session.data.about.splits["train"] // session.job.run.local_batch)


def end_input(batches: Iterator[Any]) -> None:
    """Let a pipeline go, with its threads and processes."""
    close = getattr(batches, "close", None)
    if close is not None:
        close()


def warm(session: Session) -> None:
    """Have the files in the operating system's memory, if the run is to read them from there.

    A cold run before this one may have left none of them.
    """
    read_pages(_files_read(session, "warm"))


def cool(session: Session) -> float | None:
    """Have the files forgotten by the operating system, if the run is to read them so.

    Returns
    -------
    float or None
        The share of their pages that stayed.
    """
    paths = _files_read(session, "cold")
    drop_pages(paths)
    return resident_share(paths)


def _files_read(session: Session, page_cache: str) -> list[Path]:
    """List the files of a set, those that a framework made of them, too, if they are read so."""
    examples = session.examples
    if not isinstance(examples, OnDisk) or examples.input.page_cache != page_cache:
        return []
    folder = examples.files.paths[0].parent
    return [path for path in sorted(folder.iterdir()) if path.is_file()]
