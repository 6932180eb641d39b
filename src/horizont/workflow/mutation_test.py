"""Mutation tests of the comparator: seeded defects, one at a time, each in one framework."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
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


@dataclass(frozen=True)
class MutationResult:
    """What the comparator found of a seeded defect.

    Attributes
    ----------
    framework
        The framework with the defect.
    quantity, step, tensor, pair
        The first divergence; empty if there was none.
    detected
        Whether it was found in that framework, and in the quantity and step where it must show.
    """

    description: str
    framework: str
    quantity: str
    step: int
    tensor: str
    pair: str
    distance: float
    detected: bool

    def as_row(self) -> dict[str, Any]:
        """Return the fields as a row of a table."""
        return asdict(self)


def run_mutation_tests(
    workload: str, paths: Paths | None = None, only: Collection[str] = MUTATIONS
) -> list[MutationResult]:
    """Seed every defect that is possible in a workload's network, and compare.

    With few examples and steps, an uneven last batch, and an optimizer with momentum and weight
    decay, so that these can be defective, too.

    Raises
    ------
    RunFailed
        If a framework cannot train at all.
    """
    checker = checker_for(workload, paths or study_paths())
    mutations = [name for name in _applicable_mutations(checker) if name in only]
    checker = replace(checker, study=_with_short_schedule(checker.study, workload, mutations))
    assigned = list(_assign_to_frameworks(mutations))
    trace_runs = {
        name: [FLOAT64_RUN, PERMUTED_FLOAT64_RUN] for name in FRAMEWORKS if installed_version(name)
    }
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


def _assign_to_frameworks(mutations: list[str]) -> Iterator[tuple[str, str]]:
    """Assign the mutations to the installed frameworks in turn."""
    installed = [name for name in FRAMEWORKS if installed_version(name)]
    for number, mutation in enumerate(mutations):
        yield mutation, installed[number % len(installed)]


def _mutated_run(mutation: str) -> TraceRun:
    return FLOAT64_RUN.model_copy(update={"mutation": mutation})


def _mutation_result(
    checker: EquivalenceChecker, traced: Mapping[str, TracedTensors], mutation: str, mutated: str
) -> MutationResult:
    """Compare the defective training of one framework with the sound ones of the others."""
    compared: dict[str, TracedTensors] = {
        framework: {
            FLOAT64_RUN: runs[FLOAT64_RUN],
            PERMUTED_FLOAT64_RUN: runs[PERMUTED_FLOAT64_RUN],
        }
        for framework, runs in traced.items()
        if framework != mutated
    }
    # Without its sound rerun, whose distance to the defect would count as rounding noise.
    compared[mutated] = {FLOAT64_RUN: traced[mutated][_mutated_run(mutation)]}
    divergences = (row.as_row() for row in checker.comparisons(compared) if not row.ok)
    info = MUTATIONS[mutation]
    none: dict[str, Any] = {"quantity": "", "step": 0, "tensor": "", "pair": "", "distance": 0.0}
    first = next(divergences, none)
    return MutationResult(
        description=info.description,
        framework=mutated,
        detected=first["quantity"] == info.quantity
        and first["step"] <= info.step
        and mutated in first["pair"].split("-"),
        **{key: first[key] for key in none},
    )
