import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pyarrow as pa
import pytest

from horizont.monitoring.background import background_from_samples, measure_background
from horizont.monitoring.environment import describe_environment, installed_versions
from horizont.monitoring.handle import start_sampler
from horizont.monitoring.rows import SCHEMA
from horizont.monitoring.samples import read_samples, with_rates


def table(*rows):
    keys = ("sample", "scope", "name", "pid", "cpu_s", "sent_bytes", "steal_s")
    records = []
    for row in rows:
        record = dict(zip(keys, row, strict=False))
        records.append({**record, "time_s": 100 + record["sample"] / 2, "host": "h"})
    return pa.Table.from_pylist(records, schema=SCHEMA)


def test_rates_are_per_thing_and_second():
    samples = table(
        (0, "process", "w", 1, 1.0),
        (0, "process", "w", 2, 5.0),
        (0, "interface", "lo", None, None, 100),
        (1, "process", "w", 1, 1.5),
        (1, "process", "w", 2, 5.1),
        (1, "interface", "lo", None, None, 400),
        (4, "process", "w", 1, 1.5),
    )
    rated = with_rates(samples)
    cores = rated["cpu_cores"].to_numpy()
    assert np.isnan(cores[[0, 1, 2, 5]]).all()
    assert cores[[3, 4, 6]] == pytest.approx([1.0, 0.2, 0.0])
    assert rated["sent_rate"].to_pylist()[5] == 600
    assert np.isnan(rated["read_rate"].to_numpy()).all()


def test_a_counter_that_went_back_has_no_rate_and_a_gap_is_bridged():
    samples = table(
        (0, "interface", "lo", None, None, 900),
        (1, "interface", "lo", None, None, 100),
        (2, "interface", "lo", None, None, None),
        (3, "interface", "lo", None, None, 300),
    )
    rates = with_rates(samples)["sent_rate"].to_numpy()
    assert np.isnan(rates[:3]).all()
    assert rates[3] == 200  # over one second, two samples


def test_one_thing_does_not_go_on_where_another_ended():
    samples = table((0, "process", "w", 1, 1.0), (1, "process", "w", 2, 5.0))
    assert np.isnan(with_rates(samples)["cpu_cores"].to_numpy()).all()


def test_rates_of_nothing_are_nothing():
    assert with_rates(SCHEMA.empty_table()).num_rows == 0


def machine(others, own, steal=0.0, first=0, count=20):
    """Rows of a machine: processors taken by others and, from sample `first` on, by a process."""
    rows = []
    for sample in range(count):
        mine = own * sample / 2
        rows.append(
            (sample, "host", "h", None, 7 + others * sample / 2 + mine, None, steal * sample)
        )
        if sample >= first:
            rows.append((sample, "process", "worker-0", 42, mine))
    return table(*rows)


def test_the_work_of_others_is_what_ours_does_not_explain():
    load = background_from_samples(machine(others=0.5, own=1.25), cores=2)
    assert load.cpu_fraction == pytest.approx(0.25)
    assert load.steal_fraction == 0
    assert load.disturbed
    assert not background_from_samples(machine(others=0.05, own=1.9), cores=2).disturbed


def test_time_taken_by_the_hypervisor_disturbs_too():
    load = background_from_samples(machine(others=0.0, own=1.0, steal=0.1), cores=2)
    assert load.steal_fraction == pytest.approx(0.1)
    assert load.disturbed


def test_a_process_found_late_is_not_mistaken_for_others():
    load = background_from_samples(machine(others=0.0, own=2.0, first=3), cores=2)
    assert load.cpu_fraction == pytest.approx(0.0, abs=1e-9)


def test_too_few_samples_tell_nothing():
    assert np.isnan(background_from_samples(SCHEMA.empty_table(), cores=2).cpu_fraction)
    assert np.isnan(background_from_samples(machine(0.5, 1.0, count=1), cores=2).cpu_fraction)


def test_a_real_stranger_is_noticed_and_an_own_process_is_not(tmp_path, plant):
    ours, stranger = plant(), plant()
    with start_sampler(tmp_path, 0.05) as sampler:
        sampler.add_root(ours.pid, "worker-0")
        stranger.begin("burn", 30)
        ours.tell("burn", 1.0)
        # At the same time, for others may be busy, too, and not always equally.
        with ThreadPoolExecutor(1) as beside:
            promised = beside.submit(measure_background, 0.3)
            without = measure_background(0.3, own_pids=[stranger.pid])
            with_stranger = promised.result()
    cores = psutil.cpu_count()
    load = background_from_samples(read_samples(tmp_path), cores)
    # Others on a busy machine only add to the first two; a loaded one may halve the stranger.
    assert load.cpu_fraction * cores > 0.3
    assert with_stranger.cpu_fraction * cores > 0.3
    assert without.cpu_fraction < with_stranger.cpu_fraction


def test_a_process_that_is_gone_does_not_disturb_the_watch(tree):
    tree.kill()
    assert measure_background(0.01, own_pids=[tree.pid]).cpu_fraction >= 0


def test_the_environment_tells_the_machine_and_not_whose_it_is():
    facts = describe_environment()
    assert facts["cpu"]["logical_cores"] == psutil.cpu_count()
    assert facts["cpu"]["affinity"] == sorted(os.sched_getaffinity(0))
    assert facts["memory_bytes"] == psutil.virtual_memory().total
    assert facts["packages"]["numpy"] == np.__version__
    assert facts["kernel"] == os.uname().release
    assert os.uname().nodename not in str(facts).split("'")


def test_a_package_that_is_not_there_has_no_version():
    assert installed_versions(["no-such-package"]) == {"no-such-package": None}


def test_looking_up_versions_loads_no_framework():
    code = (
        "import sys; from horizont.measure import describe_environment; describe_environment()\n"
        "sys.exit(bool({'torch', 'tensorflow', 'mxnet'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
