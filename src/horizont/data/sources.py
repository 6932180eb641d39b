"""Where the raw files of a real data set may be had, in order of preference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from horizont.data.about import Origin
from horizont.data.catalogue import DatasetInfo, RawFile
from horizont.data.progress import Progress
from horizont.data.unpack import holds
from horizont.errors import UserError

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Source:
    """A folder that holds the raw files of a set, and how they got there."""

    folder: Path
    origin: Origin


def locate(info: DatasetInfo, raw_dir: Path, mirror: Path | None) -> Source | None:
    """Return the first place without network that has the set: here, mirror, Debian's package.

    Raises
    ------
    UserError
        If a mirror is named that is no folder.
    """
    if mirror is not None and not mirror.is_dir():
        raise UserError("mirror", str(mirror), "an existing folder with the official archives")
    places: list[tuple[Path, Origin]] = [(raw_dir / info.name, "already there")]
    if mirror is not None:
        places += [(mirror / info.name, "mirror"), (mirror, "mirror")]
    if info.debian_folder is not None:
        places.append((Path(info.debian_folder), "debian"))
    found = (Source(folder, origin) for folder, origin in places if holds(info, folder))
    return next(found, None)


def fetch(info: DatasetInfo, raw_dir: Path, progress: Progress) -> Source:
    """Fetch the set from its official place into ``raw_dir/<name>``.

    Each file is written under a temporary name, compared with its checksum and then moved; one
    that is there with the right checksum is not fetched again.

    Raises
    ------
    UserError
        If a file cannot be fetched or is not the official one.
    """
    folder = raw_dir / info.name
    for file in info.files:
        _fetch_file(file, folder, progress)
    return Source(folder, "official")


def _fetch_file(file: RawFile, folder: Path, progress: Progress) -> None:
    import pooch

    downloader = pooch.HTTPDownloader(progressbar=_Bar(file, progress), timeout=TIMEOUT_S)
    pooch.get_logger().setLevel("WARNING")  # our progress already says what pooch would log
    try:
        pooch.retrieve(file.address, f"md5:{file.md5}", file.name, folder, downloader=downloader)
    except (OSError, ValueError) as error:  # no network, refused, disk full; wrong checksum
        allowed = f"network, {file.name} in {folder}, or a mirror folder that has it"
        raise UserError(f"fetching {file.address}", str(error), allowed) from error


class _Bar:
    """What pooch takes for a progress bar; it sets ``total`` and counts bytes."""

    def __init__(self, file: RawFile, progress: Progress) -> None:
        self.total = file.size
        self._file = file
        self._progress = progress
        self._done = 0

    def update(self, count: int) -> None:
        self._done += count
        self._progress(f"fetching {self._file.name}", min(1.0, self._done / self._file.size))

    def reset(self) -> None:
        """Do nothing: pooch resets the bar to count once more what is already counted."""

    def close(self) -> None:
        """Do nothing."""
