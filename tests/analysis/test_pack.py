"""Packs: the same numbers as from the folders, checked by SHA-256, and restored."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from all_quantities import assert_equal_quantities
from record_maker import make_records

from horizont.errors import UserError
from horizont.records.files import read_json, write_json
from horizont.records.pack import MANIFEST, PackContext, write_pack
from horizont.records.pack_tables import TABLES, thin_samples
from horizont.records.packed_record import Pack, PackedRecord
from horizont.records.record import Record, read_record
from horizont.workflow.compare import read_folder

FAILED, SKIPPED = "mxnet/async/parameter_server", "tensorflow/async/parameter_server"
CONTEXT = PackContext("profile: test\n", "1.2", {}, {"lenet5-cifar10": {"pytorch": "verified"}})
FORMAT1 = Path(__file__).parents[1] / "records" / "format1"

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    store = tmp_path_factory.mktemp("store")
    records = make_records(store, failed=(FAILED,), skipped=(SKIPPED,))
    for record in records:
        (record.folder / "logs" / "worker-0.log").write_text("x" * 9000 + "the end")
    return records


@pytest.fixture
def pack(originals: list[Record], tmp_path: Path) -> Pack:
    write_pack(tmp_path / "pack", originals, CONTEXT)
    return Pack(tmp_path / "pack")


def test_packed_numbers_are_those_of_the_folders(pack: Pack, originals: list[Record]) -> None:
    assert_equal_quantities(pack.records(), originals)


def test_everything_else_is_unchanged(pack: Pack, originals: list[Record]) -> None:
    packed = pack.records("lenet5-cifar10")
    assert pack.records("lenet") == []
    assert [record.folder.name for record in packed] == [each.folder.name for each in originals]
    for record, original in zip(packed, originals, strict=True):
        assert record.run == original.run
        assert record.result == original.result
        assert record.environment == original.environment
        assert record.events() == original.events()
        assert record.start_time_s == original.start_time_s
        assert original.location == "records/distributed/lenet5-cifar10"
        assert record.location == "reports/reference/distributed/runs.parquet"
        assert f"lenet5-cifar10/{record.folder.name}" in pack.rows
    assert pack.manifest.certificates == CONTEXT.certificates
    assert pack.read("params.yaml").decode() == CONTEXT.params


def test_records_of_format_1_are_packed_in_format_2(tmp_path: Path) -> None:
    for name in ("fault", "input"):
        original = read_record(FORMAT1 / name)
        write_pack(tmp_path / name, [original], CONTEXT)
        (packed,) = Pack(tmp_path / name).records()
        assert packed.format == 2
        assert packed.run == original.run
        assert packed.fault_report() == original.fault_report()
    assert packed.steps().column_names == original.steps().column_names
    batches, batches_packed = original.input_batches(), packed.input_batches()
    assert batches is not None
    assert batches_packed is not None
    assert batches_packed["batch_s"].to_pylist() == pytest.approx(
        batches["batch_s"].to_pylist(), abs=0.51e-6
    )
    assert packed.is_profiled == original.is_profiled
    with pytest.raises(UserError, match=r"samples\.parquet"):
        packed.samples()


def test_reading_starts_no_thread(pack: Pack) -> None:
    """Threads of Arrow that release a pack's bytes at the exit of Python abort the process."""
    command = [sys.executable, "-c", _COUNT_THREADS, str(pack.folder)]
    before, after = subprocess.check_output(command, text=True).split()
    assert after == before


_COUNT_THREADS = """
import os, sys
from pathlib import Path
from horizont.records.packed_record import Pack

print(len(os.listdir("/proc/self/task")))
record = next(each for each in Pack(Path(sys.argv[1])).records() if each.result.status == "ok")
record.steps()
print(len(os.listdir("/proc/self/task")))
"""


def test_samples_are_thinned_but_not_those_of_the_first_block(
    pack: Pack, originals: list[Record]
) -> None:
    for record, original in zip(pack.records(), originals, strict=True):
        if not original.ok:
            continue
        if record.run.block == 0:
            assert len(record.samples()) == len(original.samples())
            continue
        assert len(record.samples()) < 0.7 * len(original.samples())


def test_thinned_samples_have_the_peaks_of_memory() -> None:
    """One of two processes has its peak in sample 17 of 100, both together in sample 33."""
    times_s = [100.0 + 0.1 * index for index in range(100)]
    memory = {"worker-0": [50] * 100, "server-0": [10] * 100}
    memory["server-0"][17], memory["worker-0"][33] = 40, 90
    rows = [
        {"time_s": time_s, "scope": "process", "name": name, "rss_bytes": values[index]}
        for index, time_s in enumerate(times_s)
        for name, values in memory.items()
    ]
    steps = {"worker": [0, 0], "kind": ["warmup", "timed"]}
    steps |= {"start_s": [101.52, 104.78], "step_s": [3.25, 2.0]}
    thinned = thin_samples(pa.Table.from_pylist(rows), pa.table(steps))
    samples = {round((time_s - 100.0) * 10) for time_s in thinned["time_s"].to_pylist()}
    seconds = set(range(0, 100, 10))
    assert samples == {*seconds, 99, 17, 33, 15, 16, 47, 48, 67, 68}
    assert len(thinned) == 2 * len(samples)


def test_the_logs_of_failed_runs_end_as_they_did(pack: Pack, tmp_path: Path) -> None:
    for record in pack.records():
        folder = tmp_path / "restored" / record.row["run"]
        record.restore(folder)
        log = folder / "logs" / "worker-0.log"
        assert log.exists() == (not record.ok)
        if not record.ok:
            assert log.read_text() == "x" * 3993 + "the end"


def test_restored_folders_are_records(pack: Pack, tmp_path: Path) -> None:
    for record in pack.records():
        record.restore(tmp_path / "restored" / record.row["run"])
    restored = {record.folder.name: record for record in read_folder(tmp_path / "restored")}
    for record in read_folder(pack.folder):
        again = restored.pop(record.folder.name)
        assert again.run == record.run
        assert again.result == record.result
        assert again.events() == record.events()
        for name in TABLES:
            assert again.has_file(name) == record.has_file(name)
            if record.has_file(name):
                assert again.read_table(name).equals(record.read_table(name))
    assert not restored


def test_equal_records_make_equal_packs(
    pack: Pack, originals: list[Record], tmp_path: Path
) -> None:
    first = {path.name: path.read_bytes() for path in pack.folder.iterdir()}
    (pack.folder / "operators.parquet").write_text("of an earlier pack")
    write_pack(pack.folder, originals, CONTEXT)
    assert {path.name: path.read_bytes() for path in pack.folder.iterdir()} == first
    write_pack(tmp_path / "again", pack.records(), CONTEXT)
    steps = (tmp_path / "again" / "steps.parquet").read_bytes()
    assert steps == first["steps.parquet"]


@pytest.mark.parametrize("name", ["runs.parquet", "steps.parquet", "samples.parquet"])
def test_a_changed_file_is_refused_where_it_is_read(pack: Pack, name: str) -> None:
    content = bytearray((pack.folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (pack.folder / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"SHA-256 of .*{name}"):
        pack.check()
    with pytest.raises(UserError, match=rf"SHA-256 of .*{name}"):
        _read_all(Pack(pack.folder).records())


def _read_all(records: list[PackedRecord]) -> None:
    for record in records:
        if record.ok:
            record.steps()
            record.samples()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / MANIFEST).unlink(), "a folder with manifest.json"),
        (lambda folder: (folder / "steps.parquet").unlink(), "steps.parquet: missing"),
        (lambda folder: _change_manifest(folder, format=9), "manifest.json: format: 9"),
        (lambda folder: _change_manifest(folder, runs="many"), "runs: 'many'"),
    ],
)
def test_a_damaged_pack_is_refused(
    pack: Pack, damage: Callable[[Path], object], message: str
) -> None:
    damage(pack.folder)
    with pytest.raises(UserError, match=message):
        Pack(pack.folder).check()


def _change_manifest(folder: Path, **values: object) -> None:
    write_json(folder / MANIFEST, {**read_json(folder / MANIFEST), **values})


def test_runs_of_two_machines_are_not_packed(tmp_path: Path) -> None:
    records = make_records(tmp_path / "store", "local", systems=["pytorch/local", "mxnet/local"])
    for record in records:
        machine = f"An Example CPU, {record.run.block // 2} GiB"
        facts = {**record.environment, "provenance": {"machine": machine}}
        (record.folder / "environment.json").write_text(json.dumps(facts))
    opened = [read_record(record.folder) for record in records]
    with pytest.raises(UserError, match=r"0 GiB and An Example CPU, 1 GiB.*one machine"):
        write_pack(tmp_path / "pack", opened, CONTEXT)
    assert not (tmp_path / "pack").exists()
    one_machine = [record for record in opened if record.run.block < 2]
    manifest = write_pack(tmp_path / "pack", one_machine, CONTEXT)
    assert manifest.machines == {"lenet5-cifar10": "An Example CPU, 0 GiB"}
