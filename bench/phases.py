"""Phases and operators against the bare step: whether they add up, and can be placed.

For every network and framework: the sum of the parts of the instrumented steps, and the load with
the profiled step (which calls what the bare step calls), each against the bare step of the same
process; and the share of operator time that has a class.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from horizont.analysis import profile_times
from horizont.cluster import Place, execute
from horizont.data import prepare
from horizont.records import Record
from horizont.spec import FRAMEWORKS, Run, Study, parse_system, read_study

#: How far a sum may be from the bare step.
SUM_GOAL = 0.03
#: The share of operator time that has a class.
PLACED_GOAL = 0.95

#: Bare steps, instrumented and profiled ones, and repeats: more where a step is short.
WORKLOADS = {
    "lenet5-cifar10": (80, 30, 5),
    "lenet-fashion-mnist": (80, 30, 5),
    "alexnet-small-cifar10": (8, 5, 3),
    "alexnet-cifar10": (4, 3, 1),
    "resnet18-cifar10": (6, 4, 1),
    "resnet50-cifar10": (4, 3, 1),
    "inception-cifar10": (4, 3, 1),
    "lstm-ptb": (20, 10, 3),
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
                repeats = range(WORKLOADS[workload][-1])
                _report([_record(study, workload, framework, place, n) for n in repeats])


def _record(study: Study, workload: str, framework: str, place: Path, block: int) -> Record:
    bare, others, _ = WORKLOADS[workload]
    described = Run.model_validate(
        {
            "experiment": "bench",
            "workload_name": workload,
            "workload": study.workload(workload),
            "system": parse_system(f"{framework}/local"),
            "topology": {"workers": 1},
            "steps": {"warmup": 3, "bare": bare, "instrumented": others, "profiled": others},
            "global_batch": 20 if workload == "lstm-ptb" else 42,
            "block": block,
            "seed": 1,
            "sampler_hz": 0,
            "evaluate_examples": 0,
            "deadline_s": 900,
        }
    )
    where = Place(place / "records", place / study.workload(workload).dataset, {})
    return execute(described, f"{workload}-{framework}-{block}", where, lambda done, planned: None)


def _report(records: Sequence[Record]) -> None:
    run = records[0].run
    head = f"  {run.workload_name:<22}{run.system.framework:<12}"
    if failed := [record.result.reason for record in records if not record.ok]:
        print(f"{head}failed: {failed[0]}", flush=True)
        return
    (profile,) = profile_times(records).to_dict("records")
    sums = {
        "instrumented": median(map(_sum_to_bare, records)),
        "profiled": profile["profile_ratio"],
    }
    told = "  ".join(f"{name} {ratio:.3f}" for name, ratio in sums.items())
    near = min(abs(ratio - 1) for ratio in sums.values()) <= SUM_GOAL
    placed = 1 - profile["other_share"]
    print(
        f"{head}of the bare step: {told} ({'ok' if near else 'BEYOND'} {SUM_GOAL:.0%})  "
        f"operators placed {placed:.1%} ({'ok' if placed >= PLACED_GOAL else 'BELOW'} goal), "
        f"{profile['covered']:.0%} of the step",
        flush=True,
    )


def _sum_to_bare(record: Record) -> float:
    """Hold the median instrumented step, all its parts together, against the median bare one."""
    middle = record.steps().to_pandas().groupby("kind")["step_s"].median()
    return float(middle["instrumented"] / middle["bare"])
