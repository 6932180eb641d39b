"""Files of a run on a host: below one folder, which the last agent of the host removes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Self

from horizont.errors import UserError
from horizont.launchers.agent.wire import CHUNK_BYTES

#: Start of the name of the folder.
PREFIX = "horizont-agent-"

_LOCK = ".lock"


class RunFiles:
    """The folder of temporary files on a host, under the same path on all hosts of a launcher.

    Several agents on one machine, as under a private Slurm or in a test, share it: each holds a
    shared lock, and the last one removes the folder. A folder whose lock is free was left by
    agents that were killed, and is removed by the next one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            remove_abandoned(folder.parent, PREFIX, _LOCK, but=folder)
            self._lock = self._lock_folder()
        except OSError as error:
            reason = error.strerror or str(error)
            allowed = f"a folder of temporary files that can be written ({reason})"
            raise UserError("topology.options.scratch", str(folder.parent), allowed) from None

    def _lock_folder(self) -> IO[str]:
        """Create the folder and lock it, again if another agent has removed it meanwhile."""
        while True:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                status = self.folder.lstat()
                if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                    raise PermissionError(f"{self.folder} is not a folder of this user")
                lock = (self.folder / _LOCK).open("w", encoding="ascii")
                fcntl.flock(lock, fcntl.LOCK_SH)
                if os.path.samestat(os.fstat(lock.fileno()), (self.folder / _LOCK).stat()):
                    return lock
                lock.close()

    def path(self, name: str) -> Path:
        """Return the place of a file by its name in the folder; one outside is refused."""
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise ValueError(f"{name} is not below the folder of the run")
        return path

    def has(self, name: str, digest: str) -> bool:
        """Whether a file is there with the content of this digest."""
        path = self.path(name)
        return path.is_file() and file_digest(path) == digest

    def write(self, name: str, offset: int, content: bytes, size: int) -> None:
        """Write a part of a file, which gets its name with the last one."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("r+b" if offset else "wb") as file:
                file.seek(offset)
                file.write(content)
        except OSError as error:  # which would not name the folder
            raise OSError(error.errno, error.strerror, str(self.folder.parent)) from None
        if offset + len(content) >= size:
            os.replace(temporary, path)

    def remove(self, name: str) -> None:
        """Remove a file or a folder by its name."""
        path = self.path(name)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()


def remove_abandoned(parent: Path, prefix: str, lock_name: str, but: Path | None = None) -> None:
    """Remove the folders whose lock is free: the processes that held it were killed."""
    for folder in set(parent.glob(f"{prefix}*")) - {but}:
        with contextlib.suppress(OSError):
            # Not blocking: another user may have put a pipe there.
            lock = os.open(folder / lock_name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            with contextlib.closing(os.fdopen(lock)):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file; that of a file that has not changed is remembered."""
    status = path.stat()
    return _digest(path, status.st_ino, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4096)
def _digest(path: Path, *version: int) -> str:
    del version
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def chunks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Read a file in parts: (offset, content); one empty part of an empty file."""
    with path.open("rb") as file:
        offset = 0
        while (content := file.read(CHUNK_BYTES)) or not offset:
            yield offset, content
            offset += len(content)
            if not content:
                return


def files_below(path: Path) -> list[Path]:
    """List the files of a folder, links to files included, or the file itself."""
    return sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
