"""Phases and operators against the bare step: whether they add up, and can be placed.

For every network and framework: the sum of the phases of instrumented steps, and the load with the
profiled step (which calls what the bare step calls), each against the bare step of the same run;
and the share of operator time that has a class.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from horizont.analysis import profile_times, step_times
from horizont.cluster import Place, execute
from horizont.data import prepare
from horizont.records import Record
from horizont.spec import FRAMEWORKS, Run, Study, parse_system, read_study

#: How far a sum may be from the bare step.
SUM_GOAL = 0.03
#: The share of operator time that has a class.
PLACED_GOAL = 0.95

WORKLOADS = {
    "lenet5-cifar10": (50, 20),
    "lenet-fashion-mnist": (50, 20),
    "alexnet-small-cifar10": (8, 5),
    "alexnet-cifar10": (6, 4),
    "resnet18-cifar10": (8, 5),
    "resnet50-cifar10": (6, 4),
    "inception-cifar10": (6, 4),
    "lstm-ptb": (8, 5),
}


def run() -> None:
    """Print a row for each network and framework."""
    study = read_study(Path(__file__).parents[1] / "profiles" / "quick.yaml")
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as folder:
        place = Path(folder)
        for dataset in sorted({study.workload(name).dataset for name in WORKLOADS}):
            prepare(dataset, "synthetic", place / "raw", place)
        for workload in WORKLOADS:
            for framework in FRAMEWORKS:
                _report(_record(study, workload, framework, place))


def _record(study: Study, workload: str, framework: str, place: Path) -> Record:
    bare, others = WORKLOADS[workload]
    described = Run.model_validate(
        {
            "experiment": "bench",
            "workload_name": workload,
            "workload": study.workload(workload),
            "system": parse_system(f"{framework}/local"),
            "topology": {"workers": 1},
            "steps": {"warmup": 3, "bare": bare, "instrumented": others, "profiled": others},
            "global_batch": 20 if workload == "lstm-ptb" else 42,
            "block": 0,
            "seed": 1,
            "sampler_hz": 0,
            "evaluate_examples": 0,
            "deadline_s": 900,
        }
    )
    where = Place(place / "records", place / study.workload(workload).dataset, {})
    return execute(described, f"{workload}-{framework}", where, lambda done, planned: None)


def _report(record: Record) -> None:
    head = f"  {record.run.workload_name:<22}{record.run.system.framework:<12}"
    if not record.ok:
        print(f"{head}failed: {record.result.reason}", flush=True)
        return
    (step,) = step_times([record]).to_dict("records")
    (profile,) = profile_times([record]).to_dict("records")
    sums = {"instrumented": step["ratio"], "profiled": profile["profile_ratio"]}
    told = "  ".join(f"{name} {ratio:.3f}" for name, ratio in sums.items())
    near = min(abs(ratio - 1) for ratio in sums.values()) <= SUM_GOAL
    placed = 1 - profile["other_share"]
    print(
        f"{head}of the bare step: {told} ({'ok' if near else 'BEYOND'} {SUM_GOAL:.0%})  "
        f"operators placed {placed:.1%} ({'ok' if placed >= PLACED_GOAL else 'BELOW'} goal), "
        f"{profile['covered']:.0%} of the step",
        flush=True,
    )
