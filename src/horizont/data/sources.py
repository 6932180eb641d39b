"""How long work tells what it is doing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from horizont.data.archives import read_gzip, read_tar, read_uncompressed
from horizont.data.catalogue import DatasetInfo, RawFile
from horizont.data.formats import read_cifar, read_idx, read_ptb
from horizont.data.prepared import DatasetArrays, Origin, check_dataset
from horizont.errors import UserError

ProgressCallback = Callable[
    [str, float], None
]  # what is being done; the share of it that is done, 0..1


def no_progress(_step: str, _fraction: float) -> None:
    """Tell nobody."""


_READERS: dict[str, Callable[[DatasetInfo, Mapping[str, bytes]], DatasetArrays]] = {
    "cifar": read_cifar,
    "idx": read_idx,
    "ptb": read_ptb,
}


def has_all_files(info: DatasetInfo, folder: Path) -> bool:
    """Return whether a folder has all files of the set, whatever is in them."""
    return _has_archives(info, folder) or _unpacked_paths(info, folder) is not None


def read_content(info: DatasetInfo, folder: Path) -> DatasetArrays:
    """Read the whole set from a folder.

    Raises
    ------
    UserError
        If a file is missing, damaged, hostile, or not the official content.
    """
    files = _read_members(info, folder)
    for name, data in files.items():
        found = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if found != info.file_md5[name]:
            where = f"{folder}: {name}"
            raise UserError(where, f"checksum {found}", f"the official {info.file_md5[name]}")
    content = _READERS[info.format](info, files)
    check_dataset(info, content)
    return content


def _read_members(info: DatasetInfo, folder: Path) -> dict[str, bytes]:
    if _has_archives(info, folder):
        return _read_archives(info, folder)
    if plain := _unpacked_paths(info, folder):
        return {name: read_uncompressed(path) for name, path in plain.items()}
    names = ", ".join(file.name for file in info.files)
    raise UserError(str(folder), "files are missing", f"a folder with {names}")


def _has_archives(info: DatasetInfo, folder: Path) -> bool:
    return all((folder / file.name).is_file() for file in info.files)


def _unpacked_paths(info: DatasetInfo, folder: Path) -> dict[str, Path] | None:
    for shorten in (str, lambda name: PurePosixPath(name).name):
        paths = {name: folder / shorten(name) for name in info.file_md5}
        if all(path.is_file() for path in paths.values()):
            return paths
    return None


def _read_archives(info: DatasetInfo, folder: Path) -> dict[str, bytes]:
    if info.format == "idx":  # one archive a file, in the catalogue's order
        pairs = zip(info.file_md5, info.files, strict=True)
        return {name: read_gzip(folder / file.name) for name, file in pairs}
    archive = info.files[0]
    path = folder / archive.name
    return read_tar(path, info.file_md5, trusted=md5_of(path) == archive.md5)


def md5_of(path: Path) -> str:
    """Return the MD5 of a file; official places publish no stronger checksum."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()


DOWNLOAD_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class RawFiles:
    """A folder that holds the raw files of a set, and how they got there."""

    folder: Path
    origin: Origin


def locate(info: DatasetInfo, raw_dir: Path, mirror: Path | None) -> RawFiles | None:
    """Return the first place without network that has the set: here, mirror, Debian's package.

    Raises
    ------
    UserError
        If a mirror is named that is no folder.
    """
    if mirror is not None and not mirror.is_dir():
        raise UserError("mirror", str(mirror), "an existing folder with the official archives")
    places: list[tuple[Path, Origin]] = [(raw_dir / info.name, "raw folder")]
    if mirror is not None:
        places += [(mirror / info.name, "mirror"), (mirror, "mirror")]
    if info.debian_folder is not None:
        places.append((Path(info.debian_folder), "debian"))
    found = (RawFiles(folder, origin) for folder, origin in places if has_all_files(info, folder))
    return next(found, None)


def fetch(info: DatasetInfo, raw_dir: Path, progress: ProgressCallback) -> RawFiles:
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
    return RawFiles(folder, "official")


def _fetch_file(file: RawFile, folder: Path, progress: ProgressCallback) -> None:
    import pooch

    downloader = pooch.HTTPDownloader(
        progressbar=_ProgressBar(file, progress), timeout=DOWNLOAD_TIMEOUT_S
    )
    pooch.get_logger().setLevel("WARNING")  # our progress already says what pooch would log
    try:
        pooch.retrieve(file.url, f"md5:{file.md5}", file.name, folder, downloader=downloader)
    except (OSError, ValueError) as error:  # no network, refused, disk full; wrong checksum
        allowed = f"network, {file.name} in {folder}, or a mirror folder that has it"
        raise UserError(f"fetching {file.url}", str(error), allowed) from error


class _ProgressBar:
    """What pooch takes for a progress bar; it sets ``total`` and counts bytes."""

    def __init__(self, file: RawFile, progress: ProgressCallback) -> None:
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
