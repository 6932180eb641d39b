"""Records appear whole or not at all, and are checked on reading."""

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
from horizont.records.provenance import code_fingerprint, run_key
from horizont.records.record import RecordWriter, find_record, read_record
from horizont.records.results import RunResult


def finished(store: Path, status: str = "ok") -> Path:
    writer = RecordWriter(store, "key")
    writer.start(small_run(), {"cpu": "x"})
    writer.log_event("started", pid=1)
    write_table(writer.folder / "steps.parquet", pa.table({"step": [0, 1]}))
    return writer.finish(RunResult(status=status, reason="why" if status != "ok" else ""))


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = read_record(finished(tmp_path))
    assert record.run == small_run()
    assert record.ok
    assert record.steps()["step"].to_pylist() == [0, 1]
    assert [event["event"] for event in read_events(record.folder / "events.jsonl")] == ["started"]


def test_a_record_in_the_making_is_not_found(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path, "key")
    writer.start(small_run(), {})
    assert find_record(tmp_path, "key") is None
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_failed_record_gives_way_to_a_good_one(tmp_path: Path) -> None:
    finished(tmp_path, "failed")
    assert read_record(finished(tmp_path)).ok


def test_what_a_dead_launcher_left_is_swept(tmp_path: Path) -> None:
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    (tmp_path / f".old.{dead}.tmp").mkdir()
    (tmp_path / f".mine.{os.getpid()}.tmp").mkdir()
    RecordWriter.remove_abandoned(tmp_path)
    assert [folder.name for folder in tmp_path.iterdir()] == [f".mine.{os.getpid()}.tmp"]


def damage_format(folder: Path) -> None:
    spec = json.loads((folder / "spec.json").read_text())
    (folder / "spec.json").write_text(json.dumps({**spec, "format": 99}))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "result.json").unlink(), "result.json"),
        (lambda folder: (folder / "result.json").write_text("{"), "valid JSON"),
        (lambda folder: (folder / "result.json").write_text('{"status": "fine"}'), "status"),
        (damage_format, "format"),
        (
            lambda folder: (
                write_json(folder / "environment.json", {}) or (folder / "spec.json").unlink()
            ),
            "spec.json",
        ),
    ],
)
def test_damage_is_named(tmp_path: Path, damage, words) -> None:  # type: ignore[no-untyped-def]
    folder = finished(tmp_path)
    damage(folder)
    with pytest.raises(UserError, match=words):
        read_record(folder)


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    record = read_record(finished(tmp_path))
    path = record.folder / "steps.parquet"
    whole = path.read_bytes()
    size = int.from_bytes(whole[-8:-4], "little")
    damaged_footer = whole[: -8 - size] + b"\xff" * size + whole[-8:]
    for damaged in (b"PAR1", damaged_footer):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="Parquet"):
            record.steps()


def test_a_folder_that_is_removed_while_something_is_noted_is_named(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "records", "key")
    shutil.rmtree(tmp_path / "records")
    with pytest.raises(UserError, match="results folder"):
        writer.log_event("started")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="results folder"):
        RecordWriter(tmp_path / "file", "key")
    with pytest.raises(UserError, match="can be written"):
        write_json(tmp_path / "missing" / "x.json", {})


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def onto_full(self: Path, text: str, encoding: str) -> int:
        self.touch()
        with open("/dev/full", "w", encoding=encoding) as full:
            return full.write(text)

    monkeypatch.setattr(Path, "write_text", onto_full)
    with pytest.raises(UserError, match="No space left"):
        write_json(tmp_path / "x.json", {})
    assert list(tmp_path.iterdir()) == []


def test_a_cut_line_of_the_diary_is_passed_over(tmp_path: Path) -> None:
    diary = tmp_path / "events.jsonl"
    append_event(diary, "one")
    with diary.open("a") as file:
        file.write('{"event": "tw')
    assert [line["event"] for line in read_events(diary)] == ["one"]


def test_keys_differ_with_work_and_ground() -> None:
    ground = {"version": "1"}
    keys = {
        run_key(small_run(), ground),
        run_key(small_run(seed=8), ground),
        run_key(small_run(block=1), ground),
        run_key(small_run(), {"version": "2"}),
    }
    assert len(keys) == 4
    assert run_key(small_run(), ground) == run_key(small_run(), dict(ground))


def test_fingerprints_see_content_and_names(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text("1")
    first = code_fingerprint([folder])
    (folder / "a.py").write_text("2")
    second = code_fingerprint([folder])
    (folder / "a.py").rename(folder / "b.py")
    assert len({first, second, code_fingerprint([folder])}) == 3
    (folder / "notes.txt").write_text("not code")
    assert code_fingerprint([folder]) == code_fingerprint([folder])
