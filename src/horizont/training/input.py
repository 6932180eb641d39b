"""The input pipeline: its start, its measurement alone, and the page cache of its files."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from horizont.data.sharding import examples_read
from horizont.frameworks.base import ImagesOnDisk, Trainer
from horizont.records.files import write_table
from horizont.records.results import InputMeasurement
from horizont.training.context import WorkerContext

#: Short name of the working directory of this process. Loader processes exchange batches through
#: sockets in the folder for temporary files, and the name of a socket is limited to about 100
#: bytes: with a longer one the loader fails without an error in its parent, which waits forever.
WORKING_FOLDER = "/proc/self/cwd"

_READ_BYTES = 2**20


def open_input_pipeline(
    context: WorkerContext, trainer: Trainer
) -> tuple[Iterator[Any], InputMeasurement | None]:
    """Start the input pipeline and measure it alone, if the run asks for that.

    Return the batches for training, and the measurement.
    """
    run = context.job.run
    if run.input.workers:
        tempfile.tempdir = WORKING_FOLDER
    input_batches = run.steps.input_batches
    bytes_before = process_tree_pss_bytes() if input_batches else 0
    batches = trainer.batches(context.examples)
    # A cold run before this one may have evicted the files.
    load_into_page_cache(_dataset_files(context, "warm"))
    cold_files = _dataset_files(context, "cold")
    evict_from_page_cache(cold_files)
    cached_fraction = page_cache_fraction(cold_files)
    if not input_batches:
        return batches, None
    # Only single processes are measured, so the local batch is the global one.
    batches_per_epoch = max(1, examples_read(run, context.data.description) // run.local_batch)
    table = measure_input_pipeline(batches, input_batches, batches_per_epoch)
    write_table(context.job.folder / "input_batches.parquet", table)
    memory_bytes = process_tree_pss_bytes() - bytes_before + (context.examples_bytes or 0)
    # Listed again: reading may have converted the files.
    evict_from_page_cache(_dataset_files(context, "cold"))
    context.log_event("input_batches")
    return batches, InputMeasurement(memory_bytes=memory_bytes, page_cache_fraction=cached_fraction)


def measure_input_pipeline(batches: Iterator[Any], count: int, batches_per_epoch: int) -> pa.Table:
    """Read `count` batches as fast as possible and time each.

    Returns
    -------
    pyarrow.Table
        ``batch`` and ``epoch``, counted from 0, and ``batch_s``, the seconds for the batch.
    """
    batch_s = np.empty(count)
    for number in range(count):
        start_s = time.monotonic()
        next(batches)
        batch_s[number] = time.monotonic() - start_s
    numbers = np.arange(count)
    epochs = numbers // batches_per_epoch
    return pa.table({"batch": numbers, "epoch": epochs, "batch_s": batch_s})


def close_input_pipeline(batches: Iterator[Any]) -> None:
    """Stop the threads and processes of an input pipeline."""
    close = getattr(batches, "close", None)
    if close is not None:
        close()


def _dataset_files(context: WorkerContext, page_cache: str) -> list[Path]:
    """List the files of the data set if the run reads them with this state of the page cache.

    Files that a framework has converted them to are included.
    """
    examples = context.examples
    if not isinstance(examples, ImagesOnDisk) or examples.input.page_cache != page_cache:
        return []
    folder = examples.files.paths[0].parent
    return [path for path in sorted(folder.iterdir()) if path.is_file()]


def evict_from_page_cache(paths: Sequence[Path]) -> None:
    """Remove the pages of files from the page cache; dirty pages are written first.

    The kernel may ignore this: a file system in memory has no other place for the pages. See
    `page_cache_fraction`.
    """
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def load_into_page_cache(paths: Sequence[Path]) -> None:
    """Read files once, so that the kernel caches what it has memory for."""
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.read(_READ_BYTES):
                pass


def page_cache_fraction(paths: Sequence[Path]) -> float | None:
    """Return the fraction of the pages of files that is cached, by ``mincore``; None if unknown."""
    counts = [_count_resident_pages(path) for path in paths if path.stat().st_size]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or not known:
        return None
    return sum(resident for resident, _ in known) / sum(pages for _, pages in known)


def _count_resident_pages(path: Path) -> tuple[int, int] | None:
    """Return the pages of a file that are cached, and all of its pages."""
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


def process_tree_pss_bytes() -> int:
    """Sum the proportional set sizes of this process and its descendants, in bytes.

    A page that n processes map counts as an n-th in each. Forked loader processes share most of
    their pages with their parent, so resident set sizes would count these again and again.
    """
    process = psutil.Process()
    total_bytes = 0
    for each in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            total_bytes += each.memory_full_info().pss
    return total_bytes
