import numpy as np
import psutil
import pyarrow as pa
import pytest

from horizont.monitoring import background
from horizont.monitoring.background import background_from_samples, measure_background
from horizont.monitoring.client import start_sampler
from horizont.monitoring.samples import SCHEMA, read_samples


def table(*rows):
    keys = ("sample", "scope", "name", "pid", "cpu_s", "sent_bytes", "steal_s")
    records = []
    for row in rows:
        record = dict(zip(keys, row, strict=False))
        records.append({**record, "time_s": 100 + record["sample"] / 2, "host": "h"})
    return pa.Table.from_pylist(records, schema=SCHEMA)


def machine(others, own, steal=0.0, first=0, count=20):
    """Build rows of a machine: CPUs used by others and, from sample `first` on, by a process."""
    rows = []
    for sample in range(count):
        mine = own * sample / 2
        rows.append(
            (sample, "host", "h", None, 7 + others * sample / 2 + mine, None, steal * sample)
        )
        if sample >= first:
            rows.append((sample, "process", "worker-0", 42, mine))
    return table(*rows)


def test_background_is_what_the_processes_of_the_run_do_not_explain():
    load = background_from_samples(machine(others=0.5, own=1.25), cores=2)
    assert load.cpu_fraction == pytest.approx(0.25)
    assert load.steal_fraction == 0
    assert load.disturbed
    assert not background_from_samples(machine(others=0.05, own=1.9), cores=2).disturbed


def test_steal_time_disturbs_too():
    load = background_from_samples(machine(others=0.0, own=1.0, steal=0.1), cores=2)
    assert load.steal_fraction == pytest.approx(0.1)
    assert load.disturbed


def test_a_process_found_late_does_not_count_as_background():
    load = background_from_samples(machine(others=0.0, own=2.0, first=3), cores=2)
    assert load.cpu_fraction == pytest.approx(0.0, abs=1e-9)


def test_too_few_samples_give_nan():
    assert np.isnan(background_from_samples(SCHEMA.empty_table(), cores=2).cpu_fraction)
    assert np.isnan(background_from_samples(machine(0.5, 1.0, count=1), cores=2).cpu_fraction)


def test_an_unrelated_process_is_background_and_one_of_the_run_is_not(tmp_path, start_process):
    ours, unrelated = start_process(), start_process()
    with start_sampler(tmp_path, 0.05) as sampler:
        sampler.add_root(ours.pid, "worker-0")
        unrelated.send("burn", 30)
        ours.command("burn", 1.0)
        with_unrelated = measure_background(0.3)
    cores = psutil.cpu_count()
    load = background_from_samples(read_samples(tmp_path), cores)
    # Others on a busy machine only add to both.
    assert load.cpu_fraction * cores > 0.3
    assert with_unrelated.cpu_fraction * cores > 0.3


def test_the_calling_process_is_no_background(monkeypatch):
    idle = psutil.cpu_times()
    for own_s, is_disturbed in ((9.0, False), (5.0, True)):
        host, own = iter([idle, idle._replace(user=idle.user + 9)]), iter([1.0, 1.0 + own_s])
        monkeypatch.setattr(psutil, "cpu_times", lambda host=host: next(host))
        monkeypatch.setattr(background.time, "process_time", lambda own=own: next(own))
        assert measure_background(0.01).disturbed is is_disturbed
