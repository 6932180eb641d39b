import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from horizont.errors import UserError
from horizont.monitoring.control import ControlReader
from horizont.monitoring.handle import start_sampler
from horizont.monitoring.rows import SCHEMA, Row, Spill, read_spill
from horizont.monitoring.samplerspec import SamplerSpec, read_spec
from horizont.monitoring.samples import read_samples

QUICK = {"scan_s": 0.05, "spill_s": 0.05}

_LAUNCHER = """
import sys
from pathlib import Path
from horizont.measure import start_sampler
handle = start_sampler(Path(sys.argv[1]), 0.02)
print(handle.pid, flush=True)
sys.stdin.read()
"""


def running(pid):
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def rows(folder, scope="process"):
    frame = read_samples(folder).to_pandas()
    return frame[frame["scope"] == scope]


def living(folder, name):
    """Count the processes of a role in the newest sample."""
    frame = rows(folder)
    newest = read_samples(folder).to_pandas()["sample"].max()
    return len(frame[(frame["sample"] == newest) & (frame["name"] == name)])


@pytest.fixture
def sampler(tmp_path):
    with start_sampler(tmp_path, 0.02, **QUICK) as handle:
        yield handle


def test_a_run_is_followed_from_its_start_to_its_end(sampler, plant, tmp_path, until):
    worker, server = plant(), plant()
    sampler.add_root(worker.pid, "worker-0")
    sampler.add_root(server.pid, "server-0")
    until(lambda: living(tmp_path, "worker-0") == living(tmp_path, "server-0") == 1)
    worker.tell("grow", 3)
    until(lambda: living(tmp_path, "worker-0") == 4)
    worker.tell("shrink", 3)
    until(lambda: living(tmp_path, "worker-0") == 1)
    server.kill()
    until(lambda: living(tmp_path, "server-0") == 0)
    outcome = sampler.stop()
    assert (outcome.reason, outcome.path) == ("", tmp_path / "samples.parquet")
    lives = outcome.report["processes"]
    assert sorted(life["name"] for life in lives) == ["server-0"] + ["worker-0"] * 4
    assert [life["pid"] for life in lives if not life["ended"]] == [worker.pid]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["samples.json", "samples.parquet"]


@pytest.fixture(scope="module")
def record(tmp_path_factory, plant_for_module, until):
    """A finished record of a process that burned half a second and took 200 MiB."""
    folder, tree = tmp_path_factory.mktemp("record"), plant_for_module()
    with start_sampler(folder, 0.02, **QUICK) as sampler:
        sampler.add_root(tree.pid, "worker-0")
        until(lambda: living(folder, "worker-0"))
        tree.tell("burn", 0.5)
        tree.tell("hold", 200)
        now = time.monotonic()
        until(lambda: rows(folder)["time_s"].max() > now)
    return folder, sampler.stop()


def test_what_was_not_measured_is_null_and_never_zero(record):
    folder, _ = record
    assert read_samples(folder).schema.equals(SCHEMA)
    filled = {
        "process": {"pid", "cpu_s", "rss_bytes", "threads"},
        "interface": {"sent_bytes", "received_bytes"},
    }
    filled["sampler"] = filled["process"]
    for scope, columns in filled.items():
        frame = rows(folder, scope)
        known = set(frame.columns[frame.notna().all()])
        unknown = set(frame.columns[frame.isna().all()])
        head = {"sample", "time_s", "late_s", "host", "scope", "name"}
        assert known == head | columns
        seldom = set() if scope == "interface" else {"read_bytes", "write_bytes"}
        assert unknown == set(frame.columns) - known - seldom


def test_the_disks_of_a_process_are_read_at_each_scan(record):
    counted = rows(record[0])["read_bytes"].notna()
    assert 0 < counted.sum() < len(counted)


def test_the_host_is_measured_at_each_sample_and_counted_at_each_scan(record):
    host = rows(record[0], "host")
    assert host[["pid", "rss_bytes", "threads"]].isna().all(axis=None)
    measured = ["cpu_s", "memory_used_bytes", "load_1min", "runnable", "missed", "sent_bytes"]
    assert host[measured].notna().all(axis=None)
    assert 0 < host["processes"].notna().sum() < len(host)
    assert host["processes"].min() > 1


def test_work_and_memory_of_a_child_show_in_its_rows(record):
    mine = rows(record[0])
    assert 0.4 < mine["cpu_s"].max() - mine["cpu_s"].min() < 5
    assert mine["rss_bytes"].max() - mine["rss_bytes"].min() > 190 * 2**20
    assert mine["cpu_s"].is_monotonic_increasing


def test_samples_lie_on_a_fixed_grid_and_tell_how_late_they_came(record):
    folder, outcome = record
    host = rows(folder, "host")
    due = (host["time_s"] - host["late_s"]).to_numpy()
    offset = due - 0.02 * host["sample"].to_numpy()
    assert len(host) > 10
    assert np.ptp(offset) <= 2 * 0.05 * 0.02 + 1e-6  # jitter only; nothing adds up
    assert (host["late_s"] >= 0).all()
    assert outcome.report["samples"] == len(host)
    assert outcome.report["late_max_s"] == host["late_s"].max()


def test_a_sampler_that_was_held_up_counts_what_it_missed(sampler, tmp_path, until):
    os.kill(sampler.pid, signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(sampler.pid, signal.SIGCONT)
    until(lambda: rows(tmp_path, "host")["missed"].sum() >= 20)
    outcome = sampler.stop()
    host = rows(tmp_path, "host")
    gaps = np.diff(host["sample"].to_numpy()) - 1
    assert gaps.sum() == host["missed"].iloc[1:].sum()
    assert outcome.report["missed"] == host["missed"].sum()


def test_a_new_root_is_taken_in_at_once(tmp_path, plant, until):
    with start_sampler(tmp_path, 0.02, scan_s=1000, spill_s=0.05) as sampler:
        sampler.add_root(plant().pid, "worker-0")
        until(lambda: living(tmp_path, "worker-0"))


def test_sixty_children_are_all_seen(sampler, tree, tmp_path, until):
    sampler.add_root(tree.pid, "crowd")
    tree.tell("grow", 60)
    until(lambda: living(tmp_path, "crowd") == 61)
    tree.kill()
    until(lambda: living(tmp_path, "crowd") == 0)
    assert sampler.stop().reason == ""


def test_a_root_that_has_ended_already_is_noted(sampler, tree, until):
    tree.kill()
    sampler.add_root(tree.pid, "worker-0")
    time.sleep(0.2)
    outcome = sampler.stop()
    assert outcome.reason == ""
    lives = outcome.report["processes"]
    assert [(life["name"], life["ended"], life["first_s"]) for life in lives] in (
        [("worker-0", True, None)],
        [],  # the sampler was too slow to look before it was stopped
    )


def test_a_signal_ends_it_with_everything_written(tmp_path):
    handle = start_sampler(tmp_path, 0.02, spill_s=1000)
    os.kill(handle.pid, signal.SIGTERM)
    handle._process.wait(20)
    assert handle._process.returncode == 0
    assert json.loads((tmp_path / "samples.json").read_text())["ended"] == "SIGTERM"
    assert len(rows(tmp_path, "host")) >= 1
    assert handle.stop() == handle.stop()
    assert handle.stop().reason == ""


def test_it_can_be_told_to_stop_where_no_signal_reaches_it(sampler):
    sampler._control.stop()
    sampler._process.wait(20)
    assert sampler.stop().report["ended"] == "told to stop"


def test_a_killed_launcher_leaves_the_table_and_no_sampler(tmp_path, until, reaper):
    command = [sys.executable, "-c", _LAUNCHER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as launcher:
        sampler = int(launcher.stdout.readline())
        reaper.append(sampler)
        assert running(sampler)
        launcher.kill()
    until(lambda: not running(sampler))
    assert json.loads((tmp_path / "samples.json").read_text())["ended"] == "the launcher ended"
    assert len(rows(tmp_path, "host")) >= 1
    assert not (tmp_path / ".samples.arrows").exists()


def test_a_killed_sampler_loses_little_and_is_told_of(sampler, tmp_path, until):
    until(lambda: len(rows(tmp_path, "host")) > 5)
    os.kill(sampler.pid, signal.SIGKILL)
    outcome = sampler.stop()
    assert "-9" in outcome.reason
    assert outcome.path == tmp_path / "samples.parquet"
    assert len(rows(tmp_path, "host")) > 5
    assert "-9" in outcome.report["ended"]


def test_what_a_sampler_told_before_it_was_killed_stays(sampler, tmp_path, until):
    until(lambda: len(rows(tmp_path, "host")) > 5)
    os.kill(sampler.pid, signal.SIGKILL)
    told = {"format": 1, "ended": "asked to", "rows": 7, "missed": 3}
    (tmp_path / "samples.json").write_text(json.dumps(told))
    outcome = sampler.stop()
    assert outcome.report == told
    assert outcome.path == tmp_path / "samples.parquet"
    assert len(rows(tmp_path, "host")) > 5


def test_a_removed_folder_is_survived_and_told_of(sampler, tmp_path):
    shutil.rmtree(tmp_path)
    time.sleep(0.2)
    sampler.add_root(os.getpid(), "late")
    assert sampler.alive()
    outcome = sampler.stop()
    assert outcome.path is None
    assert outcome.report == {}
    assert "status 2" in outcome.reason
    assert "removed" in outcome.reason
    assert "Traceback" not in outcome.reason


def test_a_sampler_that_never_began_is_told_of(tmp_path):
    handle = start_sampler(tmp_path, 0.02, prefix=["false"])
    assert not handle.alive()
    outcome = handle.stop()
    assert outcome.path is None
    assert "status 1" in outcome.reason
    assert list(tmp_path.iterdir()) == []


def test_old_samples_are_not_taken_for_new_ones(tmp_path):
    for name in ("samples.parquet", "samples.json", ".samples.arrows"):
        (tmp_path / name).write_text("{}")
    assert start_sampler(tmp_path, prefix=["false"]).stop().path is None
    assert not (tmp_path / "samples.parquet").exists()


def test_half_a_message_waits_for_its_other_half(tmp_path):
    path = tmp_path / "control"
    path.touch()
    control = ControlReader(path)
    with path.open("w") as file:
        for piece in ('{"root": 1, "na', 'me": "worker-0"}\n{"st', 'op": true}\n'):
            assert control.read() == []
            file.write(piece)
            file.flush()
            if piece.endswith("st"):
                assert control.read() == [{"root": 1, "name": "worker-0"}]
    assert control.read() == [{"stop": True}]


def test_two_samplers_share_a_folder(tmp_path):
    with (
        start_sampler(tmp_path, host="a", stem="samples-a", interfaces=["lo"]),
        start_sampler(tmp_path, host="b", stem="samples-b", interfaces=[]),
    ):
        pass
    one, other = (read_samples(tmp_path, stem).to_pandas() for stem in ("samples-a", "samples-b"))
    assert set(one["host"]) == {"a"}
    assert set(other["host"]) == {"b"}
    assert set(one["name"]) == {"a", "lo", "sampler"}
    assert set(other["name"]) == {"b", "sampler"}
    assert other["sent_bytes"].isna().all()


def test_no_samples_yet_is_an_empty_table(tmp_path):
    assert read_samples(tmp_path).num_rows == 0


def test_a_stream_cut_anywhere_gives_its_whole_batches(tmp_path):
    spill = Spill(tmp_path / "whole")
    for sample in range(9):
        spill.rows.append(Row(sample, sample / 10, 0.0, "h", "host", "h", missed=0))
        spill.flush()
    spill.close()
    content = (tmp_path / "whole").read_bytes()
    lengths = []
    for end in np.linspace(0, len(content), 60, dtype=int):
        (tmp_path / "cut").write_bytes(content[:end])
        lengths.append(len(read_spill(tmp_path / "cut")))
    assert set(lengths) == set(range(10))
    assert lengths == sorted(lengths)


@pytest.mark.parametrize(
    ("field", "value"),
    [("interval_s", 0), ("interval_s", float("nan")), ("scan_s", -1), ("jitter", 0.5)],
)
def test_an_impossible_setting_is_refused_before_anything_starts(tmp_path, field, value):
    with pytest.raises(UserError, match=field):
        start_sampler(tmp_path, **{field: value})
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="gone"):
        start_sampler(tmp_path / "gone")


def test_an_unknown_key_is_refused(tmp_path):
    spec = SamplerSpec(str(tmp_path))
    spec.write()
    assert read_spec(spec.files.spec) == spec
    spec.files.spec.write_text(json.dumps({"folder": "x", "interval": 1}))
    with pytest.raises(UserError, match="interval_s"):
        read_spec(spec.files.spec)
