"""TensorBoard's event files: read back by TensorBoard's own reader."""

from __future__ import annotations

import shutil
import sys
import types
from pathlib import Path

import pytest
from record_maker import make_records

from horizont import analysis
from horizont.errors import UserError
from horizont.workflow.paths import Paths
from horizont.workflow.tensorboard import write_eventfiles

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))


FAILED = "mxnet/async/parameter_server"
FRAMEWORKS = {"tensorflow", "torch", "mxnet"}


@pytest.fixture
def study(tmp_path):
    store = tmp_path / "records" / "distributed" / "lenet5-cifar10"
    return Paths(tmp_path), make_records(store, blocks=1, failed=(FAILED,))


@pytest.fixture
def without_tensorflow(monkeypatch):
    """TensorBoard's reader would load TensorFlow for its file system; it is told to do without."""
    monkeypatch.setitem(sys.modules, "tensorboard.compat.notf", types.ModuleType("notf"))


def read_back(logdir):
    """Read the scalars as TensorBoard does, by run and tag: step, wall time and value."""
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

    found = EventMultiplexer().AddRunsFromDirectory(str(logdir)).Reload()
    return {
        run: {
            tag: [(e.step, e.wall_time, e.value) for e in found.Scalars(run, tag)]
            for tag in found.GetAccumulator(run).Tags()["scalars"]
        }
        for run in found.Runs()
    }


def test_every_run_is_read_back_beside_the_others(study, without_tensorflow):
    paths, records = study
    before = FRAMEWORKS & sys.modules.keys()
    write_eventfiles(paths)
    assert FRAMEWORKS & sys.modules.keys() == before
    found = read_back(paths.root / "tensorboard")
    good = [record for record in records if record.ok]
    store = paths.root / "records"
    assert set(found) == {str(record.folder.relative_to(store)) for record in good}
    for record in good:
        tags = found[str(record.folder.relative_to(store))]
        assert set(tags) == {"loss", "throughput/examples_per_s", "accuracy"}
        table = analysis.losses([record])
        assert [step for step, _, _ in tags["loss"]] == list(table["step"])
        assert [value for *_, value in tags["loss"]] == pytest.approx(list(table["loss"]))
        assert tags["accuracy"][-1][2] == pytest.approx(record.result.test_accuracy)
        rates = [value for *_, value in tags["throughput/examples_per_s"]]
        assert len(rates) == record.run.steps.bare
        assert min(rates) > 0


def test_what_is_there_is_kept_and_what_is_gone_goes(study):
    paths, records = study
    good = [record for record in records if record.ok]
    assert write_eventfiles(paths) == (written := write_eventfiles(paths, paths.root / "other"))
    assert (written.written, written.kept, written.without) == (len(good), 0, 1)
    again = write_eventfiles(paths)
    assert (again.written, again.kept) == (0, len(good))
    stranger = paths.root / "tensorboard" / "by" / "somebody" / "else" / "events.out.tfevents.1"
    stranger.parent.mkdir(parents=True)
    stranger.touch()
    (good[0].folder / "result.json").touch()
    shutil.rmtree(good[1].folder)
    later = write_eventfiles(paths)
    assert (later.written, later.kept) == (1, len(good) - 2)
    names = [path.parent.name for path in (paths.root / "tensorboard").rglob("horizont.json")]
    assert sorted(names) == sorted(r.folder.name for r in good if r.folder.exists())
    assert stranger.exists()


def test_a_folder_that_cannot_be_written_is_named(study):
    paths, _ = study
    (paths.root / "file").touch()
    with pytest.raises(UserError, match="--logdir"):
        write_eventfiles(paths, paths.root / "file" / "below")
