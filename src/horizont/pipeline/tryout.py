"""A small comparison for whoever wants to see one now. It lies beside the study, apart from it.

Data, runs and records have a folder of their own, `data/tryout`. The data are a part of the set at
hand, or its stand-in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from horizont.analysis import ProofStatus, metrics
from horizont.data import About
from horizont.networks import network_for
from horizont.pipeline.experiment import carry_out, interleaved
from horizont.pipeline.paths import Paths, study_paths
from horizont.pipeline.published import standing
from horizont.pipeline.trained import part_of
from horizont.records import Record
from horizont.report import Column, column, loss_picture, speed_table, throughput_picture
from horizont.spec import FRAMEWORKS, Run, parse_system, read_study, validate

DATASET = "cifar10"

#: A tenth of the set: quickly made, and more than one tryout looks at.
EXAMPLES = 5000

#: Steps whose phases are told apart, after the bare ones.
INSTRUMENTED = 10

DEADLINE_S = 240


@dataclass(frozen=True)
class Tryout:
    """What came of a small comparison.

    Attributes
    ----------
    records
        One for each run, in the order in which they were made.
    about
        The data set.
    proof
        Whether the study's proof covers it, by framework.
    """

    records: list[Record]
    about: About
    proof: ProofStatus

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """The results by system; see :func:`horizont.analysis.metrics`."""
        return metrics(self.records, self.proof)


def try_out(
    *,
    network: str = "lenet5",
    batch: int = 42,
    learning_rate: float = 0.05,
    threads: int = 1,
    steps: int = 100,
    blocks: int = 1,
    paths: Paths | None = None,
) -> Tryout:
    """Train a network on CIFAR-10 in each framework for a moment, or find it trained.

    Parameters
    ----------
    batch
        Examples of one step.
    threads
        Compute threads of each process.
    steps
        Bare steps; a few to warm up come before them, and a few that are taken apart behind.
    blocks
        How often each framework is run.

    Raises
    ------
    UserError
        If there is no such network, or a value is impossible.
    """
    paths = paths or study_paths()
    study = read_study(paths.params)
    about = part_of(DATASET, EXAMPLES, paths.tryout.prepared_sets, paths)
    asked = {
        "experiment": "tryout",
        "workload_name": f"{network}-{DATASET}",
        "workload": {
            "network": network,
            "dataset": DATASET,
            "optimizer": {"learning_rate": learning_rate},
        },
        "topology": {"threads": threads},
        "steps": {"warmup": 5, "bare": steps, "instrumented": INSTRUMENTED},
        "global_batch": batch,
        "seed": study.seed,
        "sampler_hz": 0,
        "evaluate_examples": 0,
        "deadline_s": DEADLINE_S,
    }
    runs = [_run(asked, name, block) for block in range(blocks) for name in FRAMEWORKS]
    network_for(runs[0].workload, about.shape, about.classes)
    records = carry_out(interleaved(runs, study.seed), about, paths.tryout)
    workload, proof_file = runs[0].workload, paths.proof(runs[0].workload_name)
    return Tryout(records, about, standing(proof_file, workload, about, list(FRAMEWORKS)))


def try_and_show(**settings: Any) -> Column:
    """Make a small comparison and show how fast each framework trained, and how the loss fell.

    Parameters
    ----------
    settings
        As of :func:`try_out`.
    """
    tryout = try_out(**settings)
    return column(
        speed_table(tryout.metrics),
        throughput_picture(tryout.records),
        loss_picture(tryout.records),
    )


def _run(asked: Mapping[str, Any], framework: str, block: int) -> Run:
    return validate(Run, {**asked, "system": parse_system(f"{framework}/local"), "block": block})
