"""Where the files of a data set come from: a local folder, a mirror, a package or a download.

A folder has the official archives or their unpacked files; either way every unpacked file is
verified with the checksum of the catalogue before it is parsed.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path, PurePosixPath

from horizont.data.archives import md5_of, read_gzip, read_tar, read_uncompressed
from horizont.data.catalogue import DatasetInfo
from horizont.data.formats import read_dataset
from horizont.data.prepared import DatasetArrays, Origin, check_dataset
from horizont.errors import Problem, UserError

DOWNLOAD_TIMEOUT_S = 30.0


#: A folder with the official files of a data set, and where they came from.
RawFiles = tuple[Path, Origin]


def locate(info: DatasetInfo, raw_dir: Path, mirror: Path | None) -> RawFiles | None:
    """Find the first folder with all files of a data set: raw folder, mirror, Debian package."""
    if mirror is not None and not mirror.is_dir():
        raise UserError("mirror", str(mirror), "an existing folder with the official archives")
    candidates: list[RawFiles] = [(raw_dir / info.name, "raw folder")]
    if mirror is not None:
        candidates += [(mirror / info.name, "mirror"), (mirror, "mirror")]
    if info.debian_folder is not None:
        candidates.append((Path(info.debian_folder), "debian"))
    for folder, origin in candidates:
        if _has_archives(info, folder) or _unpacked_paths(info, folder) is not None:
            return folder, origin
    return None


def fetch(info: DatasetInfo, raw_dir: Path) -> RawFiles:
    """Load the archives from their official address into ``raw_dir/<name>``.

    Each file is written under a temporary name, compared with its checksum and renamed; a file
    with the right checksum is not downloaded again, and one with another is refused.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")
    is_terminal = sys.stderr.isatty()
    downloader = pooch.HTTPDownloader(progressbar=is_terminal, timeout=DOWNLOAD_TIMEOUT_S)
    folder = raw_dir / info.name
    for file in info.files:
        try:
            pooch.retrieve(file.url, f"md5:{file.md5}", file.name, folder, downloader=downloader)
        except (OSError, ValueError) as error:  # no network, refused, disk full; wrong checksum
            allowed = f"network, {file.name} in {folder}, or a mirror folder that has it"
            raise UserError(f"fetching {file.url}", Problem(_reason(error)), allowed) from error
    return folder, "official"


def _reason(error: BaseException) -> str:
    """Return the first of the errors that led to one: those after it repeat it with addresses."""
    first = error
    while (before := first.__cause__ or first.__context__) is not None:
        first = before
    if isinstance(first, OSError):
        return first.strerror or str(first)
    return str(error)


def read_content(info: DatasetInfo, folder: Path) -> DatasetArrays:
    """Read the complete data set from a folder; refuse any file that is not the official one."""
    files = _read_files(info, folder)
    for name, data in files.items():
        checksum = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if checksum != info.file_md5[name]:
            field = f"{folder}: {name}"
            raise UserError(
                field, Problem(f"checksum {checksum}"), f"the official {info.file_md5[name]}"
            )
    content = read_dataset(info, files)
    check_dataset(info, content)
    return content


def _read_files(info: DatasetInfo, folder: Path) -> dict[str, bytes]:
    paths = [folder / file.name for file in info.files]
    if _has_archives(info, folder):
        if info.format == "idx":  # one archive per file, in the catalogue's order
            return dict(zip(info.file_md5, map(read_gzip, paths), strict=True))
        is_official = md5_of(paths[0]) == info.files[0].md5
        return read_tar(paths[0], info.file_md5, trusted=is_official)
    if unpacked := _unpacked_paths(info, folder):
        return {name: read_uncompressed(path) for name, path in unpacked.items()}
    names = ", ".join(path.name for path in paths)
    raise UserError(str(folder), Problem("files are missing"), f"a folder with {names}")


def _has_archives(info: DatasetInfo, folder: Path) -> bool:
    return all((folder / file.name).is_file() for file in info.files)


def _unpacked_paths(info: DatasetInfo, folder: Path) -> dict[str, Path] | None:
    """Return the unpacked files by name, with or without the folders of the archive."""
    for local_name in (str, lambda name: PurePosixPath(name).name):
        paths = {name: folder / local_name(name) for name in info.file_md5}
        if all(path.is_file() for path in paths.values()):
            return paths
    return None
