"""The live view: a real run looked at while it goes on, records cut anywhere, the page."""

from __future__ import annotations

import os
import shutil
import threading
import time

import pytest
from tests.conftest import small_run

from horizont import reporting
from horizont.analysis.live import LiveRun
from horizont.analysis.pace import live_segments
from horizont.analysis.places import find_runs
from horizont.analysis.resources import SEGMENTS
from horizont.config.run import StepCounts
from horizont.launchers.execute import RunPaths, execute
from horizont.reporting.monitor import view as views
from horizont.reporting.monitor.chart import nice_top
from horizont.reporting.monitor.logs import tail

STEPS = {"warmup": 2, "timed": 200, "instrumented": 2}


@pytest.fixture(scope="module")
def watched(tmp_path_factory, small_cifar):
    """A run with all looks that were taken at it from before its start to after its end."""
    store = tmp_path_factory.mktemp("records") / "test" / "lenet5-cifar10"
    run = small_run(steps=STEPS, sampler_hz=20, evaluation={"examples": 50})
    done = []
    maker = threading.Thread(
        target=lambda: done.append(execute(run, "key", RunPaths(store, small_cifar, {}), _silent))
    )
    live, looks = LiveRun(store / "key"), []
    looks.append(live.look())
    maker.start()
    while maker.is_alive():
        looks.append(live.look())
        maker.join(0.25)
    looks.append(live.look())
    assert done[0].ok, done[0].result.reason
    return store, looks


@pytest.fixture
def until():
    def wait(condition):
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.02)

    return wait


def _silent(done, planned):
    del done, planned


def test_a_run_is_seen_before_while_and_after_it_goes_on(watched):
    _, looks = watched
    assert looks[0].state == "gone"
    under_way = [look for look in looks if look.state == "running" and look.run]
    made = [look.slowest.done for look in under_way if look.slowest]
    assert made == sorted(made)
    assert any(0 < done < 204 for done in made)
    assert {"loading the framework", "training"} <= {
        stage for look in under_way for stage in look.stages.values()
    }
    lengths = [look.length_s for look in under_way]
    assert lengths == sorted(lengths)
    last = looks[-1]
    assert (last.state, last.result.status) == ("over", "ok")
    assert last.slowest == (204, 204)
    assert list(last.segments["kind"]) == [kind for kind in SEGMENTS if kind != "profiled"]


def test_the_segments_of_a_running_run_cover_it_without_gaps(watched):
    for look in watched[1]:
        if look.state == "running" and len(look.segments):
            starts, ends = list(look.segments["start_s"]), list(look.segments["end_s"])
            assert starts == [0.0, *ends[:-1]]
            assert all(start <= end for start, end in zip(starts, ends, strict=True))
            assert ends[-1] == pytest.approx(look.length_s)


def test_profiled_steps_come_after_the_evaluation():
    planned = StepCounts(warmup=1, timed=4, instrumented=2, profiled=3)
    history = [(10.0, 1), (11.0, 5), (12.0, 7), (20.0, 9)]
    times = {"begin_s": 0.0, "first_step_s": 10.0, "trained_s": 12.0, "end_s": 20.0}
    under_way = live_segments(planned, history, evaluated_s=None, **times)
    assert list(under_way["kind"]) == ["start-up", "warmup", "timed", "instrumented", "evaluation"]
    table = live_segments(planned, history, evaluated_s=15.0, **times)
    assert list(table["kind"]) == list(SEGMENTS)
    assert table.iloc[-2:][["start_s", "end_s"]].to_numpy().tolist() == [[12, 15], [15, 20]]


def test_looking_writes_nothing(watched):
    store, _ = watched
    before = {path: path.stat().st_mtime_ns for path in sorted(store.rglob("*"))}
    reporting.live_page(LiveRun(store / "key").look())
    assert before == {path: path.stat().st_mtime_ns for path in sorted(store.rglob("*"))}


@pytest.mark.parametrize("name", ["steps.parquet", "events.jsonl", "spec.json", "samples.parquet"])
def test_a_record_cut_anywhere_is_shown_as_far_as_it_goes(watched, tmp_path, name):
    store, _ = watched
    making = shutil.copytree(store / "key", tmp_path / "e" / "w" / f".key.{os.getpid()}.tmp")
    (making / "result.json").unlink()
    content = (making / name).read_bytes()
    live = LiveRun(tmp_path / "e" / "w" / "key")
    for length in (0, 1, len(content) // 2, len(content) - 1):
        (making / name).write_bytes(content[:length])
        look = live.look()
        assert look.state == "running"
        assert "running" in reporting.live_page(look)
    assert find_runs(tmp_path) == [tmp_path / "e" / "w" / "key"]
    os.rename(making, making.with_name(".key.1234567.tmp"))
    assert live.look().state == "abandoned"
    shutil.rmtree(tmp_path / "e")
    assert live.look().state == "gone"


def test_steps_of_a_worker_that_was_lost_are_not_said_to_be_none(watched, tmp_path):
    store, _ = watched
    shutil.copytree(store / "key", tmp_path / "e" / "w" / "key")
    (tmp_path / "e" / "w" / "key" / "steps.parquet").unlink()
    page = reporting.live_page(LiveRun(tmp_path / "e" / "w" / "key").look())
    assert "not known how many of 204" in page
    assert "step 0 of" not in page


def test_the_page_tells_hosts_processes_charts_and_log(watched):
    store, looks = watched
    (store / "key" / "logs" / "worker-0.log").write_text("a\n" * 9000 + "<last words>\n")
    page = reporting.live_page(LiveRun(store / "key").look(), (1.0, 2.0))
    for word in ("finished", "204 of 204", "worker-0", "this machine", "&lt;last words&gt;"):
        assert word in page
    assert page.count("<svg") == 5
    assert "running" in reporting.live_page(next(look for look in looks if look.state == "running"))


def test_the_view_ends_when_it_is_closed_or_no_longer_seen(watched, monkeypatch, until):
    store, _ = watched
    view = reporting.watch(store.parents[1], 0.2)
    until(lambda: "204 of 204" in view._page.value)
    assert len(view._run.options) == 2
    view.close()
    assert not view.alive
    monkeypatch.setattr(views, "_UNSEEN_S", 0.2)
    seen = reporting.watch(store.parents[1], 0.2)
    seen._page._view_count = 1
    time.sleep(0.4)
    assert seen.alive
    seen._page._view_count = 0
    until(lambda: not seen.alive)
    seen._page._view_count = 1  # shown again
    until(lambda: seen.alive)
    seen.close()


def test_an_axis_ends_at_a_round_number_above():
    assert [nice_top(value) for value in (0.0, 0.9, 98.0, 180.0, 1430.0)] == [1, 1, 150, 200, 2000]


def test_the_end_of_every_log_is_read_without_its_beginning(tmp_path):
    logs = {name: tmp_path / name for name in ("a", "b", "none")}
    logs["a"].write_text("".join(f"line {n}\n" for n in range(5000)))
    logs["b"].write_bytes(b"\xff broken\n")
    assert tail(logs, "a").splitlines()[-1] == "line 4999"
    assert len(tail(logs, "a").splitlines()) == 12
    assert "b: \ufffd broken" in tail(logs)
    assert tail({}) == "nothing printed"
