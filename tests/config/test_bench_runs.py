"""The runs of the benchmarks, which are measured now and then, stay possible in between."""

from bench.hosts import clocked_run
from bench.phases import PLACED, profiled_run
from bench.quality import trained_run
from bench.sampler_training import long_run
from bench.wire import RING, SERVERS, wired_run
from tests.conftest import ROOT

from horizont.config.study import read_study
from horizont.config.system import FRAMEWORKS, SYSTEMS, parse_system


def test_operators_are_told_of_every_workload_and_framework():
    study = read_study(ROOT / "profiles" / "quick.yaml")
    for workload in PLACED:
        for framework in FRAMEWORKS:
            assert profiled_run(study, workload, framework).steps.profiled == PLACED[workload]


def test_every_distributed_system_is_timed_on_hosts():
    distributed = [name for name in SYSTEMS if not parse_system(name).is_local]
    assert all(clocked_run(name).steps.instrumented for name in distributed)
    wired = [wired_run(name, 3, 6, 100.0) for name in (*RING, *SERVERS)]
    assert sorted(run.system.name for run in wired) == sorted(distributed)


def test_one_process_and_two_are_trained_for_long():
    assert all(trained_run(framework).system.is_local for framework in FRAMEWORKS)
    assert long_run(100).topology.workers == 2
