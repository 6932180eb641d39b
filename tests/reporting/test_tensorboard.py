"""TensorBoard's event files: read back by TensorBoard's own reader."""

from __future__ import annotations

import os
import shutil
import sys
import types
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from horizont.analysis.learning import losses
from horizont.analysis.resources import run_resource_series
from horizont.errors import UserError
from horizont.monitoring.samples import SCHEMA, Sample, SampleStream, read_samples
from horizont.records.files import write_table
from horizont.records.record import read_record
from horizont.reporting.tensorboard import run_scalars, write_event_files

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))

from record_maker import make_records

FAILED = "mxnet/async/parameter_server"
FRAMEWORKS = {"tensorflow", "torch", "mxnet"}
RUN_TAGS = {"loss", "throughput/examples_per_s", "accuracy"}


@pytest.fixture
def study(tmp_path):
    """Return the folders of records and of event files, and the records."""
    store = tmp_path / "records" / "distributed" / "lenet5-cifar10"
    records = make_records(store, blocks=1, failed=(FAILED,))
    return tmp_path / "records", tmp_path / "tensorboard", records


@pytest.fixture
def read_back(monkeypatch):
    """Return a function that reads scalars as TensorBoard does, by run and tag."""

    def read(logdir):
        # TensorBoard's reader would load TensorFlow for its file system.
        monkeypatch.setitem(sys.modules, "tensorboard.compat.notf", types.ModuleType("notf"))
        from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
        from tensorboard.util.tensor_util import make_ndarray

        unlimited = EventMultiplexer(tensor_size_guidance={"scalars": 0})
        found = unlimited.AddRunsFromDirectory(str(logdir)).Reload()
        return {
            run: {
                tag: [
                    (e.step, e.wall_time, float(make_ndarray(e.tensor_proto)))
                    for e in found.Tensors(run, tag)
                ]
                for tag in found.GetAccumulator(run).Tags()["tensors"]
            }
            for run in found.Runs()
        }

    return read


def start_again(record):
    """Convert a finished record to that of a running run with none of its samples."""
    folder = record.folder.with_name(f".{record.folder.name}.{os.getpid()}.tmp")
    record.folder.rename(folder)
    (folder / "result.json").rename(folder / "later.json")
    (folder / "steps.parquet").rename(folder / "later.parquet")
    os.utime(folder)
    samples = read_samples(folder)
    (folder / "samples.parquet").rename(folder / "later.samples")
    stream = SampleStream(folder / ".samples.arrows")
    frame = samples.to_pandas().reindex(columns=Sample._fields)
    frame["sample"] = frame["time_s"].rank(method="dense").astype(int)
    table = pa.Table.from_pandas(frame, SCHEMA, safe=False, preserve_index=False)
    rows = [Sample(**row) for row in table.to_pylist()]
    return folder, stream, rows


def finish(folder, record):
    """Restore the finished record."""
    (folder / ".samples.arrows").unlink()
    (folder / "later.samples").rename(folder / "samples.parquet")
    (folder / "later.parquet").rename(folder / "steps.parquet")
    (folder / "later.json").rename(folder / "result.json")
    folder.rename(record.folder)


def test_every_run_is_read_back(study, read_back):
    store, logdir, records = study
    before = FRAMEWORKS & sys.modules.keys()
    write_event_files(store, logdir)
    assert FRAMEWORKS & sys.modules.keys() == before
    found = read_back(logdir)
    finished = [record for record in records if record.ok]
    assert set(found) == {str(record.folder.relative_to(store)) for record in finished}
    for record in finished:
        tags = found[str(record.folder.relative_to(store))]
        resources = {tag for tag in tags if tag.startswith("resources/")}
        assert set(tags) - resources == RUN_TAGS
        table = losses([record])
        assert [step for step, _, _ in tags["loss"]] == list(table["step"])
        assert [value for *_, value in tags["loss"]] == pytest.approx(list(table["loss"]))
        assert tags["accuracy"][-1][2] == pytest.approx(record.result.test_accuracy)
        rates = [value for *_, value in tags["throughput/examples_per_s"]]
        assert len(rates) == record.run.steps.timed
        assert min(rates) > 0


def test_resources_are_those_of_the_charts(study, read_back):
    store, logdir, records = study
    write_event_files(store, logdir)
    record = next(record for record in records if record.ok)
    tags = read_back(logdir)[str(record.folder.relative_to(store))]
    table = run_resource_series(record)
    own = table[(table["quantity"] == "cpu") & (table["name"] == "worker-0")]
    written = tags["resources/cpu_percent/worker-0"]
    assert [value for *_, value in written] == pytest.approx(list(own["value"]), rel=1e-5)
    assert len(written) > 3
    # Losses and resources share one wall clock.
    times = [time for _, time, _ in tags["loss"]]
    assert written[0][1] - 60 < times[0] < written[-1][1] + 60


def test_a_running_run_has_its_resources_and_gets_its_losses_at_the_end(study, read_back):
    store, logdir, records = study
    record = next(record for record in records if record.ok)
    whole = run_resource_series(record)
    expected = whole[(whole["quantity"] == "cpu") & (whole["name"] == "worker-0")]
    folder, stream, rows = start_again(record)
    name, tag = str(record.folder.relative_to(store)), "resources/cpu_percent/worker-0"
    lengths = []
    middle = rows[len(rows) // 2].sample  # a batch holds whole samples
    for later in (False, True):
        stream.rows += [row for row in rows if (row.sample >= middle) == later]
        stream.flush()
        assert write_event_files(store, logdir)["running"] == 1
        assert write_event_files(store, logdir)["running"] == 1  # adds nothing
        tags = read_back(logdir)[name]
        assert not RUN_TAGS & tags.keys()
        lengths.append(len(tags[tag]))
    stream.close()
    assert 0 < lengths[0] < lengths[1]
    finish(folder, record)
    assert write_event_files(store, logdir)["written"] == 1
    tags = read_back(logdir)[name]
    assert tags.keys() >= RUN_TAGS
    # Files of one second are read in any order.
    values = [value for *_, value in sorted(tags[tag])]
    assert values == pytest.approx(list(expected["value"]), rel=1e-4)
    assert write_event_files(store, logdir)["written"] == 0


def test_unchanged_runs_are_not_written_again_and_removed_ones_are_removed(study):
    store, logdir, records = study
    finished = [record for record in records if record.ok]
    first = {"written": len(finished), "without_scalars": 1}
    assert write_event_files(store, logdir) == first
    assert write_event_files(store, logdir.with_name("other")) == first
    again = write_event_files(store, logdir)
    assert (again["written"], again["unchanged"]) == (0, len(finished))
    foreign = logdir / "of" / "another" / "tool" / "events.out.tfevents.1"
    foreign.parent.mkdir(parents=True)
    foreign.touch()
    (finished[0].folder / "result.json").touch()
    shutil.rmtree(finished[1].folder)
    later = write_event_files(store, logdir)
    assert (later["written"], later["unchanged"]) == (1, len(finished) - 2)
    names = [path.parent.name for path in logdir.rglob("horizont.json")]
    assert sorted(names) == sorted(r.folder.name for r in finished if r.folder.exists())
    assert foreign.exists()
    assert len(list((logdir / finished[0].folder.relative_to(store)).glob("events.*"))) == 1


def test_an_interrupted_export_is_repeated(study, read_back):
    store, logdir, records = study
    write_event_files(store, logdir)
    before = read_back(logdir)
    name = str(next(record for record in records if record.ok).folder.relative_to(store))
    (logdir / name / "horizont.json").unlink()
    assert write_event_files(store, logdir)["written"] == 1
    assert read_back(logdir) == before


def test_a_folder_that_cannot_be_written_is_named(study):
    store, logdir, _ = study
    logdir.touch()
    with pytest.raises(UserError, match="--logdir"):
        write_event_files(store, logdir / "below")


def test_the_final_accuracy_follows_the_training(study, tmp_path):
    whole = next(record for record in study[2] if record.ok)
    record = read_record(shutil.copytree(whole.folder, tmp_path / "key"))
    steps = record.steps().to_pandas()
    last = steps.tail(2)
    later = last.assign(kind="profiled", step=last["step"] + 2, start_s=last["start_s"] + 9)
    table = pa.Table.from_pandas(pd.concat([steps, later]), preserve_index=False)
    write_table(record.folder / "steps.parquet", table)
    found = run_scalars(record)
    (accuracy,) = found[found["tag"] == "accuracy"].to_dict("records")
    assert accuracy["step"] == steps["step"].max() + 1
