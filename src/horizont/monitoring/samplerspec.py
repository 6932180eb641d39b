"""What a sampler is told, and the names of the files it shares with the launcher."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from horizont.errors import UserError
from horizont.records.files import read_json, write_json


@dataclass(frozen=True)
class SamplerFiles:
    """The files of one sampler: two results, and three that are gone when it is stopped.

    Attributes
    ----------
    folder
        The folder of all of them.
    stem
        The name before the ending; one per sampler of a folder.
    """

    folder: Path
    stem: str = "samples"

    @property
    def table(self) -> Path:
        """The finished table."""
        return self.folder / f"{self.stem}.parquet"

    @property
    def report(self) -> Path:
        """What was missed, who came and went, and why the sampler ended."""
        return self.folder / f"{self.stem}.json"

    @property
    def spill(self) -> Path:
        """The table in the making; its presence says that the first sample has been taken."""
        return self.folder / f".{self.stem}.arrows"

    @property
    def control(self) -> Path:
        """The launcher's messages, a JSON line each."""
        return self.folder / f".{self.stem}.control.jsonl"

    @property
    def spec(self) -> Path:
        """The `SamplerSpec`."""
        return self.folder / f".{self.stem}.spec.json"

    def remove_temporary(self) -> None:
        """Remove what only a living sampler needs."""
        for path in (self.spill, self.control, self.spec):
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class SamplerSpec:
    """The work of one sampler.

    Attributes
    ----------
    folder, stem
        Where its files are; see `SamplerFiles`.
    host
        The name of the host, repeated in every row.
    interval_s
        Seconds from sample to sample.
    jitter
        Random move of each sample, as a share of the interval; see `Deadlines`.
    scan_s
        Seconds from one search for new processes to the next; a new root starts one at once.
    spill_s
        Seconds of samples that a killed sampler may lose.
    interfaces
        The network interfaces to count; None for all.
    parent_pid
        The process whose end ends the sampler; None for whichever started it.
    """

    folder: str
    stem: str = "samples"
    host: str = "localhost"
    interval_s: float = 0.2
    jitter: float = 0.05
    scan_s: float = 1.0
    spill_s: float = 5.0
    interfaces: list[str] | None = None
    parent_pid: int | None = None

    def __post_init__(self) -> None:
        for name in ("interval_s", "scan_s", "spill_s"):
            value = getattr(self, name)
            if not (_is_number(value) and 0 < value < math.inf):
                raise UserError(f"sampler.{name}", value, "a number of seconds above 0")
        if not (_is_number(self.jitter) and 0 <= self.jitter < 0.5):
            raise UserError("sampler.jitter", self.jitter, "a share from 0 to below 0.5")

    @property
    def files(self) -> SamplerFiles:
        """The files of this sampler."""
        return SamplerFiles(Path(self.folder), self.stem)

    def write(self) -> None:
        """Leave the specification where the sampler reads it."""
        write_json(self.files.spec, asdict(self))


def read_spec(path: Path) -> SamplerSpec:
    """Read a specification; a key that is not known is an error.

    Raises
    ------
    UserError
        If the file is missing or damaged, or a value is not possible.
    """
    values: Any = read_json(path)
    known = {field.name for field in fields(SamplerSpec)}
    if not isinstance(values, dict) or "folder" not in values:
        raise UserError(str(path), values, "an object with the field `folder`")
    for key in values.keys() - known:
        raise UserError(f"{path}: sampler", key, sorted(known))
    return SamplerSpec(**values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
