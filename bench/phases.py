"""Phases and operators against the bare step: whether they add up, and can be placed.

For every network and framework: all parts of the instrumented step together against the bare step,
the two in turns in the same process; and the share of operator time that has a class.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from bench.loops import answers
from horizont.analysis.operators import profiler_overhead
from horizont.config.run import Run
from horizont.config.study import Study, read_study
from horizont.config.system import FRAMEWORKS, installed_version, parse_system
from horizont.data.preparation import prepare
from horizont.launchers.execute import RunPaths, execute
from horizont.records.record import Record

#: How far the sum may be from the bare step.
SUM_GOAL = 0.03
#: The share of operator time that has a class.
PLACED_GOAL = 0.95

#: How many processes are asked for the sum.
PROCESSES = 3

#: In how many rounds each is: more where steps are short or vary.
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
PLACED = {
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
        place = Path(folder)
        for dataset in sorted({study.workload(name).dataset for name in PLACED}):
            prepare(dataset, "synthetic", place / "raw", place)
        for workload in PLACED:
            for framework in frameworks:
                _report_placed(_profiled(study, workload, framework, place))


def _report_sum(framework: str, network: str) -> None:
    head = f"  {network:<22}{framework:<12}"
    ratios = answers(head, PROCESSES, "bench.split", framework, network, str(ROUNDS[network]))
    if not ratios:
        return
    ratio = median(ratios)
    print(
        f"{head}parts together {ratio:.3f} of the bare step, of {PROCESSES} "
        f"({min(ratios):.3f} to {max(ratios):.3f}) "
        f"(goal 1 within {SUM_GOAL}) {'ok' if abs(ratio - 1) <= SUM_GOAL else 'BEYOND'}",
        flush=True,
    )


def profiled_run(study: Study, workload: str, framework: str) -> Run:
    """Describe a run whose operators are told."""
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
                "profiled": PLACED[workload],
            },
            "global_batch": 20 if workload == "lstm-ptb" else 42,
            "block": 0,
            "seed": 1,
            "sampler_hz": 0,
            "timeout_s": 900,
        }
    )


def _profiled(study: Study, workload: str, framework: str, place: Path) -> Record:
    described = profiled_run(study, workload, framework)
    where = RunPaths(place / "records", place / study.workload(workload).dataset, {})
    return execute(described, f"{workload}-{framework}", where, lambda done, planned: None)


def _report_placed(record: Record) -> None:
    run = record.run
    head = f"  {run.workload_name:<22}{run.system.framework:<12}"
    if not record.ok:
        print(f"{head}failed: {record.result.reason}", flush=True)
        return
    (profile,) = profiler_overhead([record]).to_dict("records")
    placed = 1 - profile["unclassified_fraction"]
    print(
        f"{head}operators placed {placed:.1%} (goal {PLACED_GOAL:.0%}) "
        f"{'ok' if placed >= PLACED_GOAL else 'BELOW'}; they cover {profile['operators_fraction']:.0%} of "
        f"the profiled step",
        flush=True,
    )
