"""``python -m bench.repetition``: a part of the reference, drawn at random, through agents.

Each drawn case, a system of an experiment at its settings, is run again in pairs: through agents,
and as in the reference, in alternating order. Printed for each: the mean throughput of the
reference and how far from it a further run lies with 95 %, both throughputs, the ratio with agents
over without, and by how much the final losses of synchronous systems differ from those of the
reference, with and without agents. Needs the data sets of the profile of the reference, and a quiet
machine for about two minutes a case.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import scipy.stats

from bench.agents import agents_here
from horizont.analysis.steps import step_means
from horizont.config.run import Run
from horizont.config.topology import Topology
from horizont.launchers.execute import RunPaths, execute
from horizont.monitoring.environment import machine_type
from horizont.records.record import Record
from horizont.statistics.intervals import LEVEL, interval_at_level
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.prepare import prepare_files
from horizont.workflow.reference import open_packs

#: What may differ between the blocks of a case.
OF_A_BLOCK = ("block", "seed", "evaluation", "timeout_s")

WITHOUT_AGENTS = ("local", "emulated")


def main(words: list[str]) -> int:
    """Run the drawn cases and print a summary."""
    parser = argparse.ArgumentParser(prog="python -m bench.repetition", description=__doc__)
    parser.add_argument("--fraction", type=float, default=0.1, help="of all cases")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--same-machine", action="store_true", help="measured on this type only")
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0, help="start no pair after them")
    arguments = parser.parse_args(words)
    cases = reference_cases(study_paths())
    if arguments.same_machine:
        cases = {key: records for key, records in cases.items() if is_of_this_machine(records)}
    drawn = random.Random(arguments.seed).sample(
        sorted(cases), round(arguments.fraction * len(cases))
    )
    print(f"{len(drawn)} of {len(cases)} cases of the reference, {arguments.pairs} pairs of each")
    end_s = time.monotonic() + 60 * arguments.minutes
    repetitions = [Repetition(cases[key]) for key in drawn]
    for pair in range(arguments.pairs):
        for number, case in enumerate(repetitions):
            if time.monotonic() < end_s:
                case.execute_pair(pair, agents_first=(number + pair) % 2 == 0)
                print(f"{number + 1:3} {case.describe()}", flush=True)
        summarise(repetitions)
    return 0


def reference_cases(paths: Paths) -> dict[str, list[Record]]:
    """Group the successful runs on CPUs, without faults and without agents, by their settings."""
    cases: defaultdict[str, list[Record]] = defaultdict(list)
    for pack, _ in open_packs(paths).values():
        for record in pack.records():
            run = record.run
            on_cpus = run.topology.device == "cpu" and run.topology.launcher in WITHOUT_AGENTS
            if on_cpus and record.ok and run.fault is None:
                cases[_settings(run)].append(record)
    return {key: records for key, records in cases.items() if len(records) > 1}


def _settings(run: Run) -> str:
    values = {k: v for k, v in run.model_dump(mode="json").items() if k not in OF_A_BLOCK}
    values["steps"] = {**values["steps"], "profiled": 0}
    return json.dumps(values, sort_keys=True)


def is_of_this_machine(records: list[Record]) -> bool:
    """Whether all runs were measured on a machine of this type."""
    return {record.machine for record in records} == {machine_type()}


class Repetition:
    """The runs of a case, with and without agents, and those of the reference."""

    def __init__(self, reference: list[Record]) -> None:
        self.reference = sorted(reference, key=lambda record: record.run.block)
        self.run = self.reference[0].run
        self.is_comparable = is_of_this_machine(reference)
        rates = [_rate(record) for record in reference]
        self.mean = statistics.mean(rates)
        self.half_width = prediction_half_width(rates)
        self.rates: dict[bool, list[float]] = {True: [], False: []}
        self.loss_differences: dict[bool, list[float]] = {True: [], False: []}
        self.problems: list[str] = []

    def execute_pair(self, number: int, agents_first: bool) -> None:
        """Execute a run of the reference with and without agents."""
        original = self.reference[number % len(self.reference)]
        for with_agents in (agents_first, not agents_first):
            self._execute(original, with_agents)

    def _execute(self, original: Record, with_agents: bool) -> None:
        run = original.run
        steps = run.steps.model_copy(update={"profiled": 0})
        topology = through_agents(run.topology) if with_agents else run.topology
        run = run.model_copy(update={"topology": topology, "steps": steps})
        record, rate = execute_again(run)
        if not record.ok:
            self.problems.append(record.result.reason)
            return
        if record.result.disturbed:
            self.problems.append(f"disturbed {'with' if with_agents else 'without'}")
        self.rates[with_agents].append(rate)
        before, after = original.result.final_loss, record.result.final_loss
        if run.system.sync != "async" and before and after:
            self.loss_differences[with_agents].append(abs(after - before) / before)

    @property
    def ratio(self) -> float:
        """Throughput with agents over that without."""
        pairs = zip(self.rates[True], self.rates[False], strict=True)
        return statistics.geometric_mean(one / other for one, other in pairs)

    def is_inside(self, with_agents: bool) -> bool:
        """Whether the repeated runs lie where a further one of the reference does."""
        return all(abs(rate - self.mean) <= self.half_width for rate in self.rates[with_agents])

    @property
    def is_complete(self) -> bool:
        """Whether no run has failed."""
        return bool(self.rates[True]) and len(self.rates[True]) == len(self.rates[False])

    def describe(self) -> str:
        """Describe the case in a line."""
        run = self.run
        label = f"{run.experiment} {run.workload_name} {run.system.name} x{run.topology.workers}"
        if not self.is_complete:
            return f"{label}: FAILED: {self.problems[0]}"
        middle = {key: statistics.median(values) for key, values in self.rates.items()}
        place = "inside" if self.is_inside(True) else "outside"
        place += "" if self.is_comparable else " (another machine)"
        text = (
            f"{label}: reference {self.mean:.4g} +- {self.half_width:.4g}, "
            f"with agents {middle[True]:.4g} {place}, without {middle[False]:.4g}, "
            f"ratio {self.ratio:.3f}"
        )
        if self.loss_differences[True]:
            of_agents, others = (max(self.loss_differences[key]) for key in (True, False))
            text += f", losses differ by {of_agents:.1e} and {others:.1e}"
        return "; ".join([text, *dict.fromkeys(self.problems)])


def prediction_half_width(values: list[float]) -> float:
    """Return the half width around the mean in which a further normal value lies with 95 %."""
    n = len(values)
    quantile = float(scipy.stats.t.isf((1 - LEVEL) / 2, n - 1))
    return quantile * statistics.stdev(values) * math.sqrt(1 + 1 / n)


def through_agents(topology: Topology) -> Topology:
    """Return a topology with agents on the same hosts."""
    if topology.launcher == "emulated":
        return topology.model_copy(update={"launcher": "emulated_agents"})
    return topology.model_copy(update=agents_here(len(topology.all_hosts)))


def execute_again(run: Run) -> tuple[Record, float]:
    """Execute a run with the data of the study; return its record, and its throughput."""
    paths = study_paths()
    data = paths.prepared(run.workload.dataset)
    with tempfile.TemporaryDirectory(prefix="horizont-bench-") as folder:
        place = RunPaths(Path(folder), data, {}, prepare_files(run, paths))
        record = execute(run, "run", place, lambda done, planned: None)
        return record, _rate(record) if record.ok else math.nan


def _rate(record: Record) -> float:
    return float(step_means(record)["examples_per_s"])


def summarise(found: list[Repetition]) -> None:
    """Print how many cases lie where they should, and what agents cost."""
    complete = [case for case in found if case.is_complete]
    if not complete:
        return
    comparable = [case for case in complete if case.is_comparable]
    inside = {key: sum(case.is_inside(key) for case in comparable) for key in (True, False)}
    ratio = interval_at_level([case.ratio for case in complete])
    print(
        f"{len(complete)} of {len(found)} cases were repeated\n"
        f"in the range of the reference: with agents {inside[True]}, without {inside[False]} "
        f"of the {len(comparable)} that were measured on a machine of this type\n"
        f"throughput with agents over without: {ratio.value:.3f} ({ratio.low:.3f} to "
        f"{ratio.high:.3f}), from {min(case.ratio for case in complete):.3f} to "
        f"{max(case.ratio for case in complete):.3f}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
