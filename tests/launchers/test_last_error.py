"""What a process that has ended gives as its reason, also where the disk is full."""

from __future__ import annotations

from pathlib import Path

import pytest

from horizont.launchers import process
from horizont.launchers.process import ProcessGroup

FULL = "OSError: [Errno 28] No space left on device"


@pytest.mark.parametrize(
    ("text", "free_bytes", "error"),
    [
        ("a line\nValueError: x\nthe end\n", 2**30, "ValueError: x"),
        ("ValueError: x\n", 0, "ValueError: x"),
        ("a line\n", 2**30, "a line"),
        ("", 2**30, ""),
        ("", 0, "No space left on device in {store}"),
        (f"Traceback\n{FULL}\n", 4096, f"{FULL} in {{store}}"),
    ],
)
def test_a_full_disk_is_named_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, free_bytes: int, error: str
) -> None:
    log = tmp_path / ".key.17.tmp" / "logs" / "worker-0.log"
    log.parent.mkdir(parents=True)
    log.write_text(text)
    monkeypatch.setattr(process, "_free_bytes", lambda path: free_bytes)
    group = ProcessGroup.__new__(ProcessGroup)  # without a process
    group.log = log
    assert group.last_error() == error.format(store=tmp_path)
