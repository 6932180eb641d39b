"""Where a training reads its examples from, and by which of a framework's own readers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from horizont.errors import UserError
from horizont.spec.base import Frozen
from horizont.spec.system import System


class ReaderTraits(Frozen):
    """What a reader is, and what it can do.

    Attributes
    ----------
    means
        The framework's own names for its parts.
    ordered
        Whether it reads the examples in a given order; otherwise in that of the files, from the
        first to the last and again.
    workers
        What reads beside the training: processes, threads, or nothing.
    ahead_alone
        The most batches that it can fetch ahead without workers.
    ahead_of_workers
        The fewest batches that it fetches ahead with workers.
    keeps
        What the cache keeps; nothing if it cannot be chosen.
    always_cached
        Whether it keeps all examples in memory by itself.
    """

    framework: str
    means: str
    ordered: bool = True
    workers: Literal["processes", "threads", "none"] = "none"
    ahead_alone: int = 0
    ahead_of_workers: int = 0
    keeps: str
    always_cached: bool = False


#: Batches that any reader can be asked to fetch ahead, at most.
FAR = 64

#: The readers of files by name; the first of a framework is its usual one.
READERS: dict[str, ReaderTraits] = {
    "tf.data": ReaderTraits(
        framework="tensorflow",
        means="a map over the order with tf.numpy_function; with the cache "
        "FixedLengthRecordDataset, cache() of the whole set, gather",
        workers="threads",
        ahead_alone=FAR,
        keeps="the whole set, read at the first batch",
    ),
    "FixedLengthRecordDataset": ReaderTraits(
        framework="tensorflow",
        means="tf.data.FixedLengthRecordDataset, map, cache(), batch",
        ordered=False,
        workers="threads",
        ahead_alone=FAR,
        keeps="each example once it was read",
    ),
    "DataLoader": ReaderTraits(
        framework="pytorch",
        means="Dataset with __getitems__, DataLoader",
        workers="processes",
        ahead_of_workers=1,
        keeps="each example once it was read, in each worker its own",
    ),
    "gluon.DataLoader": ReaderTraits(
        framework="mxnet",
        means="gluon.data.Dataset of batches, gluon.data.DataLoader",
        workers="processes",
        keeps="each example once it was read, in each worker its own",
    ),
    "RecordIO": ReaderTraits(
        framework="mxnet",
        means="MXIndexedRecordIO of a converted copy, gluon.data.DataLoader",
        workers="processes",
        keeps="each example once it was read, in each worker its own",
    ),
    "NDArrayIter": ReaderTraits(
        framework="mxnet",
        means="io.NDArrayIter over the examples of an epoch, put in order; io.PrefetchingIter",
        ahead_alone=1,
        keeps="the whole set, and an epoch of it in order",
        always_cached=True,
    ),
}


class Input(Frozen):
    """How examples reach the training loop.

    Attributes
    ----------
    source
        `memory`: all examples lie in memory before the training. `files`: they are read from
        files in the format of their official archives, unpacked.
    reader
        Of `READERS`; nothing is the usual one of the framework.
    cache
        Whether examples that were read once are kept in memory, decoded.
    workers
        Processes or threads that read beside the training.
    prefetch
        Batches that are fetched ahead; by each worker, if they are processes of PyTorch's.
    page_cache
        `cold`: the files are dropped from the operating system's memory before the pipeline
        starts, and again before the training.
    """

    source: Literal["memory", "files"] = "memory"
    reader: str | None = None
    cache: bool = False
    workers: int = Field(default=0, ge=0, le=16)
    prefetch: int = Field(default=0, ge=0, le=FAR)
    page_cache: Literal["warm", "cold"] = "warm"

    @property
    def from_files(self) -> bool:
        """Whether examples are read from files."""
        return self.source == "files"

    def title(self, framework: str) -> str:
        """Tell what sets this input apart: `DataLoader, cache, 2 workers, 4 ahead, cold`."""
        if not self.from_files:
            return "memory"
        parts = [self.reader_of(framework), "cache" if self.cache else "no cache"]
        parts += [f"{self.workers} worker{'s' if self.workers > 1 else ''}"] if self.workers else []
        parts += [f"{self.prefetch} ahead"] if self.prefetch else []
        return ", ".join([*parts, "cold"] if self.page_cache == "cold" else parts)

    def reader_of(self, framework: str) -> str:
        """Tell the reader that a framework uses."""
        usual = (name for name, traits in READERS.items() if traits.framework == framework)
        return self.reader or next(usual)

    @model_validator(mode="after")
    def _fits(self) -> Input:
        if self.reader is not None and self.reader not in READERS:
            raise UserError("reader", self.reader, READERS)
        if not self.from_files:
            for field, value in self.model_dump(exclude={"source"}).items():
                usual = Input.model_fields[field].default
                if value != usual:
                    raise UserError(field, value, f"{usual} where the source is memory")
        return self


def suits_input(given: Input, system: System) -> bool:
    """Whether a system's framework has the reader that is named."""
    return given.reader is None or READERS[given.reader].framework == system.framework


def check_input(system: System, given: Input) -> None:
    """Refuse what the system's reader cannot do.

    Raises
    ------
    UserError
        With the field of the input that is impossible.
    """
    if not given.from_files:
        return
    if not system.is_local:
        raise UserError("source", given.source, f"memory for {system.name}: files are for one")
    if not suits_input(given, system):
        own = [name for name, each in READERS.items() if each.framework == system.framework]
        raise UserError("reader", given.reader, own)
    name = given.reader_of(system.framework)
    traits = READERS[name]
    if given.workers and traits.workers == "none":
        raise UserError("workers", given.workers, f"0 for {name}")
    if traits.always_cached and not given.cache:
        raise UserError("cache", given.cache, f"true for {name}, which keeps all in memory")
    _check_prefetch(name, traits, given)


def _check_prefetch(name: str, traits: ReaderTraits, given: Input) -> None:
    most = FAR if given.workers else traits.ahead_alone
    least = traits.ahead_of_workers if given.workers else 0
    if not least <= given.prefetch <= most:
        with_workers = f"with {given.workers} workers" if given.workers else "without workers"
        allowed = str(least) if least == most else f"{least} to {most}"
        raise UserError("prefetch", given.prefetch, f"{allowed} for {name} {with_workers}")
