"""Trying the comparator: deliberate mistakes, one at a time, each in one framework."""

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

#: In float64, which is the proof, with its noise.
FLOAT64_RUN = TraceRun(dtype="float64")
PERMUTED_FLOAT64_RUN = TraceRun(dtype="float64", perturbation="batch_order")


@dataclass(frozen=True)
class MutationResult:
    """What the comparator said of a mistake.

    Attributes
    ----------
    framework
        Where it was made.
    quantity, step, tensor, pair
        The first departure; empty if there was none.
    caught
        Whether it was found, in the framework where it was made, and where it had to show.
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
    """Make every mistake that is possible in a workload's network, and compare.

    Few examples and steps; the last batch is an uneven one. The optimizer has momentum and
    weight decay, so that these can be mistaken, too.

    Raises
    ------
    RunFailed
        If a framework cannot train at all.
    """
    prover = checker_for(workload, paths or study_paths())
    tried = [fault for fault in _applicable_mutations(prover) if fault in only]
    prover = replace(prover, study=_with_stricter_schedule(prover.study, workload, tried))
    dealt = list(_assign_to_frameworks(tried))
    passes = {
        name: [FLOAT64_RUN, PERMUTED_FLOAT64_RUN] for name in FRAMEWORKS if installed_version(name)
    }
    for fault, owner in dealt:
        passes[owner].append(_mutated_run(fault))
    told = prover.train(passes, "with deliberate mistakes")
    return [_mutation_result(prover, told, fault, owner) for fault, owner in dealt]


def _with_stricter_schedule(study: Study, workload: str, mutations: Collection[str]) -> Study:
    """Change the rule, and follow just as far as it takes for the last mistake to show."""
    last = max((MUTATIONS[fault].step for fault in mutations), default=1)
    rule = OptimizerConfig(learning_rate=0.01, momentum=0.9, weight_decay=1e-3)
    described = study.workload(workload).model_copy(update={"optimizer": rule})
    return study.model_copy(
        update={
            "workloads": {**study.workloads, workload: described},
            "equivalence": EquivalenceConfig(batch=8, at_steps=tuple(range(1, max(last, 1) + 1))),
        }
    )


def _applicable_mutations(checker: EquivalenceChecker) -> list[str]:
    about = checker.dataset
    network = network_for(checker.study.workload(checker.workload), about.shape, about.classes)
    given = {"", "text" if network.reads_text else "images"}
    if any(isinstance(layer, BatchNorm) for layer in network.layers):
        given.add("batch norm")
    return [name for name, info in MUTATIONS.items() if info.requires in given]


def _assign_to_frameworks(mutations: list[str]) -> Iterator[tuple[str, str]]:
    """Deal the mistakes to the installed frameworks in turn."""
    installed = [name for name in FRAMEWORKS if installed_version(name)]
    for number, fault in enumerate(mutations):
        yield fault, installed[number % len(installed)]


def _mutated_run(mutation: str) -> TraceRun:
    return FLOAT64_RUN.model_copy(update={"mutation": mutation})


def _mutation_result(
    checker: EquivalenceChecker, traced: Mapping[str, TracedTensors], mutation: str, owner: str
) -> MutationResult:
    """Put the broken training in the place of the sound one, and compare."""
    compared: dict[str, TracedTensors] = {
        framework: {
            FLOAT64_RUN: passes[FLOAT64_RUN],
            PERMUTED_FLOAT64_RUN: passes[PERMUTED_FLOAT64_RUN],
        }
        for framework, passes in traced.items()
        if framework != owner
    }
    # Without noise of its own: against its sound rerun it would look like noise itself.
    compared[owner] = {FLOAT64_RUN: traced[owner][_mutated_run(mutation)]}
    departures = (row.as_row() for row in checker.comparisons(compared) if not row.ok)
    info = MUTATIONS[mutation]
    nothing: dict[str, Any] = {"quantity": "", "step": 0, "tensor": "", "pair": "", "distance": 0.0}
    found = next(departures, nothing)
    keys = ("quantity", "step", "tensor", "pair", "distance")
    return MutationResult(
        description=info.description,
        framework=owner,
        detected=found["quantity"] == info.quantity
        and found["step"] <= info.step
        and owner in found["pair"].split("-"),
        **{key: found[key] for key in keys},
    )
