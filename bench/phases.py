"""Phases and operators against the timed step: whether they add up, and can be classified.

For every network and framework: the sum of all phases of the instrumented step relative to the
timed step, both in the same process; and the fraction of operator time that has a class.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from bench.loops import run_in_processes
from horizont.analysis.operators import profiler_overhead
from horizont.config.run import Run
from horizont.config.study import Study, read_study
from horizont.config.system import FRAMEWORKS, installed_version, parse_system
from horizont.data.preparation import prepare
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import Record

#: Allowed deviation of the sum from the timed step.
SUM_GOAL = 0.03
#: The fraction of operator time that has a class.
CLASSIFIED_GOAL = 0.95

#: Processes that measure the sum.
PROCESSES = 3

#: Rounds of each: more where steps are short or vary.
ROUNDS = {
    "lenet5": 6,
    "lenet": 20,
    "alexnet-small": 12,
    "resnet18": 12,
    "resnet50": 3,
    "inception": 3,
    "lstm": 6,
}

#: Profiled steps.
PROFILED_STEPS = {
    "lenet5-cifar10": 30,
    "lenet-fashion-mnist": 30,
    "alexnet-small-cifar10": 4,
    "alexnet-cifar10": 2,
    "resnet18-cifar10": 3,
    "resnet50-cifar10": 2,
    "inception-cifar10": 2,
    "lstm-ptb": 8,
}


def run() -> None:
    """Print a row for each network and framework, of sums and of operators."""
    frameworks = [name for name in FRAMEWORKS if installed_version(name) is not None]
    for network in ROUNDS:
        for framework in frameworks:
            _report_sum(framework, network)
    study = read_study(Path(__file__).parents[1] / "profiles" / "quick.yaml")
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as folder:
        root = Path(folder)
        for dataset in sorted({study.workload(name).dataset for name in PROFILED_STEPS}):
            prepare(dataset, "synthetic", root / "raw", root)
        for workload in PROFILED_STEPS:
            for framework in frameworks:
                _report_classified(_profiled(study, workload, framework, root))


def _report_sum(framework: str, network: str) -> None:
    head = f"  {network:<22}{framework:<12}"
    ratios = run_in_processes(
        head, PROCESSES, framework, "bench.split", network, str(ROUNDS[network])
    )
    if not ratios:
        return
    ratio = median(ratios)
    print(
        f"{head}phases together {ratio:.3f} of the timed step, of {PROCESSES} "
        f"({min(ratios):.3f} to {max(ratios):.3f}) "
        f"(goal 1 within {SUM_GOAL}) {'ok' if abs(ratio - 1) <= SUM_GOAL else 'BEYOND'}",
        flush=True,
    )


def profiled_run(study: Study, workload: str, framework: str) -> Run:
    """Return a run whose operators are profiled."""
    return Run.model_validate(
        {
            "experiment": "bench",
            "workload_name": workload,
            "workload": study.workload(workload),
            "system": parse_system(f"{framework}/local"),
            "topology": {"workers": 1},
            "steps": {
                "warmup": 2,
                "timed": 2,
                "instrumented": 0,
                "profiled": PROFILED_STEPS[workload],
            },
            "global_batch": 20 if workload == "lstm-ptb" else 42,
            "block": 0,
            "seed": 1,
            "sampler_hz": 0,
            "timeout_s": 900,
        }
    )


def _profiled(study: Study, workload: str, framework: str, root: Path) -> Record:
    run = profiled_run(study, workload, framework)
    paths = RunPaths(root / "records", root / study.workload(workload).dataset, {})
    return execute(run, f"{workload}-{framework}", paths, lambda done, planned: None)


def _report_classified(record: Record) -> None:
    run = record.run
    head = f"  {run.workload_name:<22}{run.system.framework:<12}"
    if not record.ok:
        print(f"{head}failed: {record.result.reason}", flush=True)
        return
    (profile,) = profiler_overhead([record]).to_dict("records")
    classified = 1 - profile["unclassified_fraction"]
    print(
        f"{head}operators classified {classified:.1%} (goal {CLASSIFIED_GOAL:.0%}) "
        f"{'ok' if classified >= CLASSIFIED_GOAL else 'BELOW'}; they cover "
        f"{profile['operators_fraction']:.0%} of the profiled step",
        flush=True,
    )
