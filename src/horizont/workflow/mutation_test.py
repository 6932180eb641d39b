"""Mutation tests of the comparator: seeded defects, one at a time, each in one framework."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import cycle
from typing import Any

from horizont.config.jobs import TraceRun
from horizont.config.mutations import LARGEST_PRECISE_BATCH, MUTATION_STEPS, MUTATIONS, MutationInfo
from horizont.config.study import ComparisonSchedule, EquivalenceConfig, Study
from horizont.config.system import FRAMEWORKS, unusable_reason
from horizont.config.workload import OptimizerConfig
from horizont.equivalence.certificate import first_failed
from horizont.networks.catalogue import network_for
from horizont.networks.layers import BatchNorm
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.verify import (
    CHECK_RUNS,
    TRACE_RUNS,
    EquivalenceChecker,
    TracedTensors,
    checker_for,
    with_mutation,
)


def run_mutation_tests(
    workload: str, paths: Paths | None = None, only: Collection[str] = MUTATIONS
) -> list[dict[str, Any]]:
    """Seed every defect that is possible in a workload's network, and compare.

    With few examples and steps, an uneven last batch, and an optimizer with momentum and weight
    decay, so that these can be defective, too.

    Returns
    -------
    list
        Of each defect ``description`` and ``framework``; the first divergence as ``quantity``,
        ``step``, ``tensor``, ``pair``, ``check`` and ``distance``, empty if there was none; and
        ``detected``: whether it was in that framework, by the check and in the quantity and step
        where it must show.

    Raises
    ------
    RunFailed
        If a framework cannot train at all.
    """
    checker = checker_for(workload, paths or study_paths())
    mutations = [name for name in _applicable_mutations(checker) if name in only]
    checker = replace(checker, study=_with_short_schedule(checker.study, workload, mutations))
    installed = [name for name in FRAMEWORKS if not unusable_reason(name)]
    assigned = list(zip(mutations, cycle(installed)))
    needed = {run for mutation in mutations for run in _runs_for(mutation)}
    sound = [run for run in TRACE_RUNS if run in needed]
    trace_runs: dict[str, list[TraceRun]] = {name: list(sound) for name in installed}
    for mutation, framework in assigned:
        trace_runs[framework] += with_mutation(_runs_for(mutation), mutation)
    traced = checker.train(trace_runs, "with seeded defects")
    return [_mutation_result(checker, traced, *pair) for pair in assigned]


def _runs_for(mutation: str) -> list[TraceRun]:
    """Return the runs of a mutated training that may show the mutation, and those of its noise."""
    info = MUTATIONS[mutation]
    return [run for run in TRACE_RUNS if run.dtype in ("float64", info.dtype) and _shows(run, info)]


def _shows(run: TraceRun, info: MutationInfo) -> bool:
    if run.path == "timed_batches":
        return info.quantity == "batch"
    plain = [("plain", perturbation) for perturbation in ("none", "weight_ulp", "weight_ulp_down")]
    return (run.path, run.perturbation) in [*plain, CHECK_RUNS.get(info.check)]


def _with_short_schedule(study: Study, workload: str, mutations: Collection[str]) -> Study:
    """Change the optimizer, and compare up to the step after the last one that a defect needs."""
    shown = [MUTATIONS[name].step for name in mutations if MUTATIONS[name].quantity != "batch"]
    last = min(MUTATION_STEPS, max(shown, default=0) + 1)
    optimizer = OptimizerConfig(learning_rate=0.01, momentum=0.9, weight_decay=1e-3)
    mutated = study.workload(workload).model_copy(update={"optimizer": optimizer})
    schedule: dict[str, Any] = {"batch": 8, "at_steps": tuple(range(1, last + 1))}
    equivalence = EquivalenceConfig(
        workloads=(workload,), overrides={workload: ComparisonSchedule(**schedule)}, **schedule
    )
    workloads = {**study.workloads, workload: mutated}
    return study.model_copy(update={"workloads": workloads, "equivalence": equivalence})


def _applicable_mutations(checker: EquivalenceChecker) -> list[str]:
    dataset = checker.dataset
    network = network_for(checker.study.workload(checker.workload), dataset.shape, dataset.classes)
    properties = {"", "text" if network.reads_text else "images"}
    if any(isinstance(layer, BatchNorm) for layer in network.layers):
        properties.add("batch norm")
    if checker.study.timed_batches(checker.workload)[-1:] > (LARGEST_PRECISE_BATCH,):
        properties.add("large batches")
    return [name for name, info in MUTATIONS.items() if info.requires in properties]


def _mutation_result(
    checker: EquivalenceChecker, traced: Mapping[str, TracedTensors], mutation: str, mutated: str
) -> dict[str, Any]:
    """Compare the defective training of one framework with the sound ones of the others."""
    info = MUTATIONS[mutation]
    runs = _runs_for(mutation)
    mutated_runs = with_mutation(runs, mutation)
    compared: dict[str, TracedTensors] = {
        framework: {
            run: own[traced_as]
            for run, traced_as in zip(
                runs, mutated_runs if framework == mutated else runs, strict=True
            )
            if traced_as in own
        }
        for framework, own in traced.items()
    }
    first = first_failed([row.as_row() for row in checker.comparisons(compared)])
    none: dict[str, Any] = {"quantity": "", "step": 0, "tensor": "", "pair": "", "distance": 0.0}
    found = {key: (first or none).get(key, "") for key in (*none, "check")}
    return {
        "description": info.description,
        "framework": mutated,
        **found,
        "detected": (found["check"], found["quantity"]) == (info.check, info.quantity)
        and found["step"] <= info.step
        and mutated in found["pair"].split("-"),
    }
