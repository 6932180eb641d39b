"""The runs of the benchmarks, which are executed rarely, remain valid."""

from bench.hosts import instrumented_run
from bench.phases import PROFILED_STEPS, profiled_run
from bench.quality import accuracy_run
from bench.sampler_training import long_run
from bench.wire import RING, SERVERS, emulated_run
from tests.conftest import ROOT

from horizont.config.study import read_study
from horizont.config.system import FRAMEWORKS, SYSTEMS, parse_system


def test_every_workload_and_framework_is_profiled():
    study = read_study(ROOT / "profiles" / "quick.yaml")
    for workload in PROFILED_STEPS:
        for framework in FRAMEWORKS:
            assert (
                profiled_run(study, workload, framework).steps.profiled == PROFILED_STEPS[workload]
            )


def test_every_distributed_system_runs_on_emulated_hosts():
    distributed = [name for name in SYSTEMS if not parse_system(name).is_local]
    assert all(instrumented_run(name).steps.instrumented for name in distributed)
    runs = [emulated_run(name, 3, 6, 100.0) for name in (*RING, *SERVERS)]
    assert sorted(run.system.name for run in runs) == sorted(distributed)


def test_trainings_with_one_process_and_two():
    assert all(accuracy_run(framework).system.is_local for framework in FRAMEWORKS)
    assert long_run(100).topology.workers == 2
