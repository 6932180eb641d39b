"""Trying the comparator: deliberate mistakes, one at a time, each in one framework."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from horizont.networks import BatchNorm, network_for
from horizont.pipeline.paths import Paths, study_paths
from horizont.pipeline.prover import Prover, Told, prover_of
from horizont.spec import (
    FAULT_INFOS,
    FRAMEWORKS,
    EquivalenceSettings,
    Optimizer,
    Study,
    TracePass,
    installed_version,
)

#: In float64, which is the proof, with its noise.
EXACT = TracePass(dtype="float64")
NOISE = TracePass(dtype="float64", variant="permuted")


@dataclass(frozen=True)
class FaultTried:
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

    mistake: str
    framework: str
    quantity: str
    step: int
    tensor: str
    pair: str
    distance: float
    caught: bool

    def as_row(self) -> dict[str, Any]:
        """Return the fields as a row of a table."""
        return asdict(self)


def try_faults(
    workload: str, paths: Paths | None = None, only: Collection[str] = FAULT_INFOS
) -> list[FaultTried]:
    """Make every mistake that is possible in a workload's network, and compare.

    Few examples and steps; the last batch is an uneven one. The optimizer has momentum and
    weight decay, so that these can be mistaken, too.

    Raises
    ------
    RunFailed
        If a framework cannot train at all.
    """
    prover = prover_of(workload, paths or study_paths())
    tried = [fault for fault in _possible(prover) if fault in only]
    prover = replace(prover, study=_harder(prover.study, workload, tried))
    dealt = list(_deal(tried))
    passes = {name: [EXACT, NOISE] for name in FRAMEWORKS if installed_version(name)}
    for fault, owner in dealt:
        passes[owner].append(_broken(fault))
    told = prover.train(passes, "with deliberate mistakes")
    return [_tried(prover, told, fault, owner) for fault, owner in dealt]


def _harder(study: Study, workload: str, tried: Collection[str]) -> Study:
    """Change the rule, and follow just as far as it takes for the last mistake to show."""
    last = max((FAULT_INFOS[fault].step for fault in tried), default=1)
    rule = Optimizer(learning_rate=0.01, momentum=0.9, weight_decay=1e-3)
    described = study.workload(workload).model_copy(update={"optimizer": rule})
    return study.model_copy(
        update={
            "workloads": {**study.workloads, workload: described},
            "equivalence": EquivalenceSettings(batch=8, at_steps=tuple(range(1, max(last, 1) + 1))),
        }
    )


def _possible(prover: Prover) -> list[str]:
    about = prover.about
    network = network_for(prover.study.workload(prover.workload), about.shape, about.classes)
    given = {"", "a text" if network.reads_text else "images"}
    if any(isinstance(layer, BatchNorm) for layer in network.layers):
        given.add("batch norm")
    return [name for name, info in FAULT_INFOS.items() if info.needs in given]


def _deal(faults: list[str]) -> Iterator[tuple[str, str]]:
    """Deal the mistakes to the installed frameworks in turn."""
    installed = [name for name in FRAMEWORKS if installed_version(name)]
    for number, fault in enumerate(faults):
        yield fault, installed[number % len(installed)]


def _broken(fault: str) -> TracePass:
    return EXACT.model_copy(update={"fault": fault})


def _tried(prover: Prover, told: Mapping[str, Told], fault: str, owner: str) -> FaultTried:
    """Put the broken training in the place of the sound one, and compare."""
    compared: dict[str, Told] = {
        framework: {EXACT: passes[EXACT], NOISE: passes[NOISE]}
        for framework, passes in told.items()
        if framework != owner
    }
    # Without noise of its own: against its sound rerun it would look like noise itself.
    compared[owner] = {EXACT: told[owner][_broken(fault)]}
    departures = (row.as_row() for row in prover.comparisons(compared) if not row.ok)
    info = FAULT_INFOS[fault]
    nothing: dict[str, Any] = {"quantity": "", "step": 0, "tensor": "", "pair": "", "distance": 0.0}
    found = next(departures, nothing)
    keys = ("quantity", "step", "tensor", "pair", "distance")
    return FaultTried(
        mistake=info.mistake,
        framework=owner,
        caught=found["quantity"] == info.quantity
        and found["step"] <= info.step
        and owner in found["pair"].split("-"),
        **{key: found[key] for key in keys},
    )
