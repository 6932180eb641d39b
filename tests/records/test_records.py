"""Records are written atomically and checked on reading."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.conftest import small_run

from horizont.errors import UserError
from horizont.records.files import append_event, read_events, write_json, write_table
from horizont.records.record import RecordWriter, find_record, read_record
from horizont.records.results import RunResult, Status


def write_record(store: Path, status: Status = "ok") -> Path:
    writer = RecordWriter(store, "key")
    writer.start(small_run(), {"cpu": "x"})
    writer.log_event("started", pid=1)
    write_table(writer.folder / "steps.parquet", pa.table({"step": [0, 1]}))
    return writer.finish(RunResult(status=status, reason="why" if status != "ok" else ""))


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = read_record(write_record(tmp_path))
    assert record.run == small_run()
    assert record.ok
    assert record.steps()["step"].to_pylist() == [0, 1]
    assert [event["event"] for event in read_events(record.folder / "events.jsonl")] == ["started"]


def test_an_incomplete_record_is_not_found(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path, "key")
    writer.start(small_run(), {})
    assert find_record(tmp_path, "key") is None
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_failed_record_is_replaced(tmp_path: Path) -> None:
    write_record(tmp_path, "failed")
    assert read_record(write_record(tmp_path)).ok


def test_abandoned_records_are_removed(tmp_path: Path) -> None:
    exited = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    (tmp_path / f".old.{exited}.tmp").mkdir()
    (tmp_path / f".own.{os.getpid()}.tmp").mkdir()
    RecordWriter.remove_abandoned(tmp_path)
    assert [folder.name for folder in tmp_path.iterdir()] == [f".own.{os.getpid()}.tmp"]


def damage_format(folder: Path) -> None:
    spec = json.loads((folder / "spec.json").read_text())
    (folder / "spec.json").write_text(json.dumps({**spec, "format": 99}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "result.json").unlink(), "result.json"),
        (lambda folder: (folder / "result.json").write_text("{"), "valid JSON"),
        (lambda folder: (folder / "result.json").write_text('{"status": "fine"}'), "status"),
        (damage_format, "format"),
        (lambda folder: (folder / "spec.json").unlink(), "spec.json"),
    ],
)
def test_damage_is_named(tmp_path: Path, damage, message) -> None:  # type: ignore[no-untyped-def]
    folder = write_record(tmp_path)
    damage(folder)
    with pytest.raises(UserError, match=message):
        read_record(folder)


def test_a_damaged_table_is_reported(tmp_path: Path) -> None:
    record = read_record(write_record(tmp_path))
    path = record.folder / "steps.parquet"
    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    damaged_footer = content[: -8 - size] + b"\xff" * size + content[-8:]
    for damaged in (b"PAR1", damaged_footer):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="Parquet"):
            record.steps()


def test_a_folder_removed_during_logging_is_reported(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "records", "key")
    shutil.rmtree(tmp_path / "records")
    with pytest.raises(UserError, match="results folder"):
        writer.log_event("started")


def test_a_read_only_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="results folder"):
        RecordWriter(tmp_path / "file", "key")
    with pytest.raises(UserError, match="writable"):
        write_json(tmp_path / "missing" / "x.json", {})


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_to_full_device(self: Path, text: str, encoding: str) -> int:
        self.touch()
        with open("/dev/full", "w", encoding=encoding) as full:
            return full.write(text)

    monkeypatch.setattr(Path, "write_text", write_to_full_device)
    with pytest.raises(UserError, match="No space left"):
        write_json(tmp_path / "x.json", {})
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_event_is_skipped(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    append_event(log, "one")
    with log.open("a") as file:
        file.write('{"event": "tw')
    assert [line["event"] for line in read_events(log)] == ["one"]
