"""The memory of a process and its children, in which what they share counts once."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from horizont.frameworks.base import ImagesOnDisk, Trainer
from horizont.monitoring.clock import now_s
from horizont.records.files import write_table
from horizont.records.results import InputMeasurement
from horizont.training.context import WorkerContext


def process_tree_pss_bytes() -> int:
    """Sum the proportional set sizes of this process and its children, in bytes.

    A page that n processes map counts as a n-th in each. Forked loader processes share most of
    their pages with their parent, so that resident sets would count them again and again.
    """
    this = psutil.Process()
    return sum(_pss_bytes(each.pid) for each in [this, *this.children(recursive=True)])


def _pss_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
            return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0


#: Bytes that are read at once.
_READ_BYTES = 2**20


def evict_from_page_cache(paths: Sequence[Path]) -> None:
    """Ask the system to forget the pages of some files; they are written out first.

    The system may decline: a file system that lies in memory, for one, has nowhere else to keep
    them. See :func:`resident_share`.
    """
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def load_into_page_cache(paths: Sequence[Path]) -> None:
    """Read some files once, so that the system keeps what it has room for."""
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.read(_READ_BYTES):
                pass


def page_cache_fraction(paths: Sequence[Path]) -> float | None:
    """Tell the share of the pages of some files that is in memory.

    Returns
    -------
    float or None
        0 to 1; nothing where the system does not tell (``mincore``).
    """
    counts = [_count_resident_pages(path) for path in paths if path.stat().st_size]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or not known:
        return None
    return sum(resident for resident, _ in known) / sum(pages for _, pages in known)


def _count_resident_pages(path: Path) -> tuple[int, int] | None:
    """Count the pages of a file that are in memory, and all of them."""
    size = path.stat().st_size
    pages = -(-size // mmap.PAGESIZE)
    vector = (ctypes.c_ubyte * pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    # A copy-on-write mapping, because ctypes takes addresses of writable memory only.
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        try:
            address = ctypes.c_void_p(ctypes.addressof(start))
            failed = libc.mincore(address, ctypes.c_size_t(size), vector)
        finally:
            del start
    if failed:
        return None
    return int(np.count_nonzero(np.frombuffer(bytes(vector), np.uint8) & 1)), pages


#: This process's own folder, by a short name. Loader processes hand batches over through sockets
#: in the folder for temporary files, and the name of a socket may have some hundred bytes only:
#: with a longer one the loader fails without a word to its parent, which waits for ever.
WORKING_FOLDER = "/proc/self/cwd"


def open_input_pipeline(
    context: WorkerContext, trainer: Trainer
) -> tuple[Iterator[Any], InputMeasurement | None]:
    """Start the pipeline and take from it what is to be taken before the first step.

    Returns
    -------
    tuple
        The batches of the training, and what the pipeline needed, if it was drained.
    """
    if context.job.run.input.workers:
        tempfile.tempdir = WORKING_FOLDER
    drained = context.job.run.steps.input_batches
    before = process_tree_pss_bytes() if drained else 0
    batches = trainer.batches(context.examples)
    warm_page_cache(context)
    resident = evict_page_cache(context)
    if not drained:
        return batches, None
    write_table(
        context.job.folder / "input_batches.parquet",
        measure_input_pipeline(batches, drained, _batches_per_epoch(context)),
    )
    grown = process_tree_pss_bytes() - before + (context.examples_bytes or 0)
    evict_page_cache(context)
    context.log_event("input_batches")
    return batches, InputMeasurement(memory_bytes=grown, page_cache_fraction=resident)


def measure_input_pipeline(batches: Iterator[Any], count: int, epoch: int) -> pa.Table:
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


def _batches_per_epoch(context: WorkerContext) -> int:
    """Count the batches of an epoch; a single process trains, so they are the whole epoch's."""
    return max(1, context.data.description.splits["train"] // context.job.run.local_batch)


def close_input_pipeline(batches: Iterator[Any]) -> None:
    """Let a pipeline go, with its threads and processes."""
    close = getattr(batches, "close", None)
    if close is not None:
        close()


def warm_page_cache(context: WorkerContext) -> None:
    """Have the files in the operating system's memory, if the run is to read them from there.

    A cold run before this one may have left none of them.
    """
    load_into_page_cache(_dataset_files(context, "warm"))


def evict_page_cache(context: WorkerContext) -> float | None:
    """Have the files forgotten by the operating system, if the run is to read them so.

    Returns
    -------
    float or None
        The share of their pages that stayed.
    """
    paths = _dataset_files(context, "cold")
    evict_from_page_cache(paths)
    return page_cache_fraction(paths)


def _dataset_files(context: WorkerContext, page_cache: str) -> list[Path]:
    """List the files of a set, those that a framework made of them, too, if they are read so."""
    examples = context.examples
    if not isinstance(examples, ImagesOnDisk) or examples.input.page_cache != page_cache:
        return []
    folder = examples.files.paths[0].parent
    return [path for path in sorted(folder.iterdir()) if path.is_file()]
