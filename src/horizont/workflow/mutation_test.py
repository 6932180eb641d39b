"""Mutation tests of the comparator: seeded defects, one at a time, each in one framework."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import cycle
from typing import Any

from horizont.config.jobs import TraceRun
from horizont.config.mutations import MUTATIONS
from horizont.config.study import EquivalenceConfig, Study
from horizont.config.system import FRAMEWORKS, installed_version
from horizont.config.workload import OptimizerConfig
from horizont.networks.catalogue import network_for
from horizont.networks.layers import BatchNorm
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.verify import EquivalenceChecker, TracedTensors, checker_for

#: In float64, which decides, with its rounding noise.
FLOAT64_RUN = TraceRun(dtype="float64")
PERMUTED_FLOAT64_RUN = TraceRun(dtype="float64", perturbation="batch_order")


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
        ``step``, ``tensor``, ``pair`` and ``distance``, empty if there was none; and ``detected``:
        whether it was in that framework, and in the quantity and step where it must show.

    Raises
    ------
    RunFailed
        If a framework cannot train at all.
    """
    checker = checker_for(workload, paths or study_paths())
    mutations = [name for name in _applicable_mutations(checker) if name in only]
    checker = replace(checker, study=_with_short_schedule(checker.study, workload, mutations))
    installed = [name for name in FRAMEWORKS if installed_version(name)]
    trace_runs = {name: [FLOAT64_RUN, PERMUTED_FLOAT64_RUN] for name in installed}
    assigned = list(zip(mutations, cycle(installed)))
    for mutation, framework in assigned:
        trace_runs[framework].append(_mutated_run(mutation))
    traced = checker.train(trace_runs, "with seeded defects")
    return [_mutation_result(checker, traced, *pair) for pair in assigned]


def _with_short_schedule(study: Study, workload: str, mutations: Collection[str]) -> Study:
    """Change the optimizer, and compare up to the step in which the last defect must show."""
    last = max((MUTATIONS[name].step for name in mutations), default=1)
    optimizer = OptimizerConfig(learning_rate=0.01, momentum=0.9, weight_decay=1e-3)
    mutated = study.workload(workload).model_copy(update={"optimizer": optimizer})
    return study.model_copy(
        update={
            "workloads": {**study.workloads, workload: mutated},
            "equivalence": EquivalenceConfig(
                workloads=(workload,), batch=8, at_steps=tuple(range(1, max(last, 1) + 1))
            ),
        }
    )


def _applicable_mutations(checker: EquivalenceChecker) -> list[str]:
    dataset = checker.dataset
    network = network_for(checker.study.workload(checker.workload), dataset.shape, dataset.classes)
    properties = {"", "text" if network.reads_text else "images"}
    if any(isinstance(layer, BatchNorm) for layer in network.layers):
        properties.add("batch norm")
    return [name for name, info in MUTATIONS.items() if info.requires in properties]


def _mutated_run(mutation: str) -> TraceRun:
    return FLOAT64_RUN.model_copy(update={"mutation": mutation})


def _mutation_result(
    checker: EquivalenceChecker, traced: Mapping[str, TracedTensors], mutation: str, mutated: str
) -> dict[str, Any]:
    """Compare the defective training of one framework with the sound ones of the others."""
    compared: dict[str, TracedTensors] = {
        framework: {run: runs[run] for run in (FLOAT64_RUN, PERMUTED_FLOAT64_RUN)}
        for framework, runs in traced.items()
        if framework != mutated
    }
    # Without its sound rerun, whose distance to the defect would count as rounding noise.
    compared[mutated] = {FLOAT64_RUN: traced[mutated][_mutated_run(mutation)]}
    divergences = (row.as_row() for row in checker.comparisons(compared) if not row.ok)
    info = MUTATIONS[mutation]
    none: dict[str, Any] = {"quantity": "", "step": 0, "tensor": "", "pair": "", "distance": 0.0}
    first = next(divergences, none)
    return {
        "description": info.description,
        "framework": mutated,
        **{key: first[key] for key in none},
        "detected": first["quantity"] == info.quantity
        and first["step"] <= info.step
        and mutated in first["pair"].split("-"),
    }
