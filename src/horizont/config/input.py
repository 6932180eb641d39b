"""The input pipeline: where training reads its examples from, and with which reader."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel
from horizont.config.framework import MAX_PREFETCH
from horizont.config.system import READERS, System, framework_info
from horizont.errors import UserError


class InputPipeline(ConfigModel):
    """How examples reach the training loop; see ``docs/settings.md``.

    Attributes
    ----------
    prefetch
        Batches that are prefetched; by each worker, if the workers are processes.
    page_cache
        `cold`: the files are evicted from the page cache before the pipeline is measured, and
        again before training.
    """

    source: Literal["memory", "files"] = "memory"
    reader: str | None = None
    cache: bool = False
    workers: int = Field(default=0, ge=0, le=16)
    prefetch: int = Field(default=0, ge=0, le=MAX_PREFETCH)
    shards: int = Field(default=1, ge=1, le=64)
    page_cache: Literal["warm", "cold"] = "warm"

    @property
    def from_files(self) -> bool:
        """Whether examples are read from files."""
        return self.source == "files"

    def label(self, framework: str) -> str:
        """Return the settings in words: `<reader>, cache, 2 workers, 4 ahead, cold`."""
        if not self.from_files:
            return "memory"
        parts = [self.reader_of(framework), "cache" if self.cache else "no cache"]
        parts += [f"{self.workers} worker{'s' if self.workers > 1 else ''}"] if self.workers else []
        parts += [f"{self.prefetch} ahead"] if self.prefetch else []
        parts += [f"1 of {self.shards} shards"] if self.shards > 1 else []
        return ", ".join([*parts, "cold"] if self.page_cache == "cold" else parts)

    def reader_of(self, framework: str) -> str:
        """Return the name of the reader that a framework uses."""
        return self.reader or next(iter(framework_info(framework).readers))

    @model_validator(mode="after")
    def _check_consistency(self) -> InputPipeline:
        if self.reader is not None and self.reader not in READERS:
            raise UserError("reader", self.reader, READERS)
        if not self.from_files:
            self.check_defaults("with the source memory")
        return self


def supports_input(pipeline: InputPipeline, system: System) -> bool:
    """Whether the framework of a system has the requested reader."""
    return pipeline.reader is None or pipeline.reader in framework_info(system.framework).readers


def readers_of(systems: Iterable[System]) -> list[str]:
    """List the readers of the frameworks of systems."""
    frameworks = dict.fromkeys(system.framework for system in systems)
    return [reader for name in frameworks for reader in framework_info(name).readers]


def check_input_pipeline(system: System, pipeline: InputPipeline) -> None:
    """Refuse settings that the reader of a system does not support."""
    if not pipeline.from_files:
        return
    if not system.is_local:
        raise UserError("source", pipeline.source, f"memory for {system.name}, which has workers")
    readers = framework_info(system.framework).readers
    if not readers:
        raise UserError("source", pipeline.source, f"memory for {system.name}, which has no reader")
    if not supports_input(pipeline, system):
        raise UserError("reader", pipeline.reader, readers)
    name = pipeline.reader_of(system.framework)
    info = readers[name]
    if pipeline.workers and info.workers == "none":
        raise UserError("workers", pipeline.workers, f"0 for {name}")
    if info.always_cached and not pipeline.cache:
        raise UserError("cache", pipeline.cache, f"true for {name}, which reads all into memory")
    least, most, workers = 0, info.max_prefetch_inline, "without workers"
    if pipeline.workers:
        least, most = info.min_prefetch_with_workers, MAX_PREFETCH
        workers = f"with {pipeline.workers} workers"
    if not least <= pipeline.prefetch <= most:
        allowed = str(least) if least == most else f"{least} to {most}"
        raise UserError("prefetch", pipeline.prefetch, f"{allowed} for {name} {workers}")
