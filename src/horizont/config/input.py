"""Where a training reads its examples from, and by which of a framework's own readers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel
from horizont.config.system import System
from horizont.errors import UserError


class ReaderInfo(ConfigModel):
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
    mechanism: str
    ordered: bool = True
    workers: Literal["processes", "threads", "none"] = "none"
    max_prefetch_inline: int = 0
    min_prefetch_with_workers: int = 0
    cache_scope: str
    always_cached: bool = False


#: Batches that any reader can be asked to fetch ahead, at most.
MAX_PREFETCH = 64

#: The readers of files by name; the first of a framework is its usual one.
READERS: dict[str, ReaderInfo] = {
    "tf.data": ReaderInfo(
        framework="tensorflow",
        mechanism="a map over the order with tf.numpy_function; with the cache "
        "FixedLengthRecordDataset, cache() of the whole set, gather",
        workers="threads",
        max_prefetch_inline=MAX_PREFETCH,
        cache_scope="the whole set, read at the first batch",
    ),
    "FixedLengthRecordDataset": ReaderInfo(
        framework="tensorflow",
        mechanism="tf.data.FixedLengthRecordDataset, map, cache(), batch",
        ordered=False,
        workers="threads",
        max_prefetch_inline=MAX_PREFETCH,
        cache_scope="each example once it was read",
    ),
    "DataLoader": ReaderInfo(
        framework="pytorch",
        mechanism="Dataset with __getitems__, DataLoader",
        workers="processes",
        min_prefetch_with_workers=1,
        cache_scope="each example once it was read, in each worker its own",
    ),
    "gluon.DataLoader": ReaderInfo(
        framework="mxnet",
        mechanism="gluon.data.Dataset of batches, gluon.data.DataLoader",
        workers="processes",
        cache_scope="each example once it was read, in each worker its own",
    ),
    "RecordIO": ReaderInfo(
        framework="mxnet",
        mechanism="MXIndexedRecordIO of a converted copy, gluon.data.DataLoader",
        workers="processes",
        cache_scope="each example once it was read, in each worker its own",
    ),
    "NDArrayIter": ReaderInfo(
        framework="mxnet",
        mechanism="io.NDArrayIter over the examples of an epoch, put in order; io.PrefetchingIter",
        max_prefetch_inline=1,
        cache_scope="the whole set, and an epoch of it in order",
        always_cached=True,
    ),
}


class InputPipeline(ConfigModel):
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
    prefetch: int = Field(default=0, ge=0, le=MAX_PREFETCH)
    page_cache: Literal["warm", "cold"] = "warm"

    @property
    def from_files(self) -> bool:
        """Whether examples are read from files."""
        return self.source == "files"

    def label(self, framework: str) -> str:
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
    def _check_consistency(self) -> InputPipeline:
        if self.reader is not None and self.reader not in READERS:
            raise UserError("reader", self.reader, READERS)
        if not self.from_files:
            for field, value in self.model_dump(exclude={"source"}).items():
                usual = InputPipeline.model_fields[field].default
                if value != usual:
                    raise UserError(field, value, f"{usual} where the source is memory")
        return self


def supports_input(pipeline: InputPipeline, system: System) -> bool:
    """Whether a system's framework has the reader that is named."""
    return pipeline.reader is None or READERS[pipeline.reader].framework == system.framework


def check_input_pipeline(system: System, pipeline: InputPipeline) -> None:
    """Refuse what the system's reader cannot do.

    Raises
    ------
    UserError
        With the field of the input that is impossible.
    """
    if not pipeline.from_files:
        return
    if not system.is_local:
        raise UserError("source", pipeline.source, f"memory for {system.name}: files are for one")
    if not supports_input(pipeline, system):
        own = [name for name, each in READERS.items() if each.framework == system.framework]
        raise UserError("reader", pipeline.reader, own)
    name = pipeline.reader_of(system.framework)
    traits = READERS[name]
    if pipeline.workers and traits.workers == "none":
        raise UserError("workers", pipeline.workers, f"0 for {name}")
    if traits.always_cached and not pipeline.cache:
        raise UserError("cache", pipeline.cache, f"true for {name}, which keeps all in memory")
    _check_prefetch(name, traits, pipeline)


def _check_prefetch(name: str, info: ReaderInfo, pipeline: InputPipeline) -> None:
    most = MAX_PREFETCH if pipeline.workers else info.max_prefetch_inline
    least = info.min_prefetch_with_workers if pipeline.workers else 0
    if not least <= pipeline.prefetch <= most:
        with_workers = f"with {pipeline.workers} workers" if pipeline.workers else "without workers"
        allowed = str(least) if least == most else f"{least} to {most}"
        raise UserError("prefetch", pipeline.prefetch, f"{allowed} for {name} {with_workers}")
