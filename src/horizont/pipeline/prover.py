"""Proving that the frameworks train the same network on a workload."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from horizont.cluster import run_side_by_side
from horizont.cluster.plan import plan_trace
from horizont.data import About
from horizont.equivalence import Comparison, Proof, Traces, compare, proof_of, write_proof
from horizont.pipeline.check import checked_study
from horizont.pipeline.ground import proof_ground
from horizont.pipeline.paths import Paths, study_paths
from horizont.pipeline.prepare import ensure_data
from horizont.pipeline.progress import Progress
from horizont.spec import (
    FRAMEWORKS,
    PLAIN,
    Build,
    Study,
    TraceJob,
    TracePass,
    installed_version,
)

DEADLINE_S = 1800.0

#: The trainings of each framework: the proof and the precision of the times, with their noise.
PASSES = (
    TracePass(dtype="float64"),
    TracePass(dtype="float64", variant="permuted"),
    TracePass(dtype="float32"),
    TracePass(dtype="float32", variant="permuted"),
    TracePass(dtype="float32", variant="moved"),
    TracePass(dtype="float32", variant="threads"),
)

#: Compute threads of the trainings, and of those with another number.
THREADS = 1
OTHER_THREADS = 2

#: Those of another build of a framework, whose noise is the framework's.
BUILT = (TracePass(dtype="float64"), TracePass(dtype="float32"))

#: Tensors by name, of each pass.
Told = Mapping[TracePass, Mapping[str, NDArray[Any]]]


def prove(workload: str, paths: Paths | None = None, faults: dict[str, str] | None = None) -> Proof:
    """Train a little in every framework, compare all tensors, and keep the findings.

    So are the builds that the study times: each is compared with its own framework.

    Parameters
    ----------
    faults
        Deliberate mistakes by framework; a proof with faults is handed back and not kept.

    Raises
    ------
    UserError
        If a setting is wrong.
    RunFailed
        If a framework cannot train at all.
    """
    paths = paths or study_paths()
    prover = prover_of(workload, paths)
    passes: dict[str, Sequence[TracePass]] = {
        **dict.fromkeys(FRAMEWORKS, PASSES),
        **dict.fromkeys(builds_of(prover.study), BUILT),
    }
    told = prover.train(
        {
            trainer: [
                training.model_copy(update={"fault": (faults or {}).get(trainer)})
                for training in trainings
            ]
            for trainer, trainings in passes.items()
            if installed_version(trainer.partition("+")[0])
        },
        "compared",
    )
    proof = prover.proof(told)
    if not faults:
        write_proof(paths.proof(workload), proof)
    return proof


def builds_of(study: Study) -> list[str]:
    """List the builds that a study times, with their frameworks: `pytorch+compiled`."""
    built = (system.trainer for system in study.systems() if system.build != PLAIN)
    return list(dict.fromkeys(built))


def prover_of(workload: str, paths: Paths) -> Prover:
    """Prepare the trainings of a workload."""
    study = checked_study(paths)
    about = ensure_data(study, study.workload(workload).dataset, paths)
    return Prover(study, workload, about, paths.prepared(about.name).resolve())


@dataclass(frozen=True)
class Prover:
    """The trainings of one proof, and what follows from them."""

    study: Study
    workload: str
    about: About
    data_folder: Path

    def train(self, passes: Mapping[str, Sequence[TracePass]], purpose: str) -> Mapping[str, Told]:
        """Train in some frameworks, each in processes of its own, and tell all tensors.

        Parameters
        ----------
        passes
            The trainings of each framework or build.
        purpose
            What this is for, in a word or two that follow the name of the workload.
        """
        with tempfile.TemporaryDirectory(prefix="horizont-") as made:
            jobs = [
                job for name, own in passes.items() for job in self._jobs(name, own, Path(made))
            ]
            progress = Progress("training", len(jobs))
            progress.begin(f"{self.workload} {purpose}")
            trainers = {job.folder: job.trainer for job in jobs}
            run_side_by_side(
                [plan_trace(job) for job in jobs],
                DEADLINE_S,
                lambda planned: progress.end(f"{trainers[planned.folder]} done"),
            )
            told: dict[str, Told] = {name: {} for name in passes}
            for job in jobs:
                own = {training: _read(job.folder / training.file) for training in job.passes}
                told[job.trainer] = {**told[job.trainer], **own}
        progress.close()
        return told

    def _jobs(self, trainer: str, passes: Sequence[TracePass], folder: Path) -> list[TraceJob]:
        """Deal trainings to processes: one for all, and one for another number of threads."""
        usual = [training for training in passes if training.variant != "threads"]
        other = [training for training in passes if training.variant == "threads"]
        dealt = ((usual, THREADS), (other, OTHER_THREADS))
        return [
            self._job(trainer, own, threads, folder / f"{trainer}-{threads}")
            for own, threads in dealt
            if own
        ]

    def _job(
        self, trainer: str, passes: Sequence[TracePass], threads: int, folder: Path
    ) -> TraceJob:
        following = self.study.equivalence.of(self.workload)
        framework, _, build = trainer.partition("+")
        return TraceJob(
            framework=framework,
            build=cast(Build, build or PLAIN),
            workload=self.study.workload(self.workload),
            batch=following.batch,
            at_steps=following.at_steps,
            passes=tuple(passes),
            seed=self.study.seed,
            threads=threads,
            data_folder=self.data_folder,
            folder=folder,
        )

    def comparisons(self, told: Mapping[str, Told]) -> Iterator[Comparison]:
        """Compare what the frameworks told, tensor by tensor, the exact precision first."""
        for traces in _by_dtype(told):
            yield from compare(traces)

    def proof(self, told: Mapping[str, Told]) -> Proof:
        """Compare all that the frameworks told."""
        workload = self.study.workload(self.workload)
        installed = [name for name in told if "+" not in name]
        return proof_of(
            self.comparisons(told),
            workload=self.workload,
            network=workload.network,
            dataset=workload.dataset,
            source=self.about.source,
            ground=proof_ground(workload, self.about, installed),
            frameworks=tuple(installed),
            builds=tuple(name for name in told if "+" in name),
            missing={
                name: f"{name} is not installed" for name in FRAMEWORKS if name not in installed
            },
        )


def _by_dtype(told: Mapping[str, Told]) -> list[Traces]:
    """Sort what was told by precision; a precision that nobody trained in is left out."""

    def all_of(dtype: str, variant: str = "plain") -> dict[str, Mapping[str, NDArray[Any]]]:
        return {
            framework: tensors
            for framework, passes in told.items()
            for training, tensors in passes.items()
            if (training.dtype, training.variant) == (dtype, variant)
        }

    exact = Traces("float64", all_of("float64"), [all_of("float64", "permuted")])
    reruns = [all_of("float32", variant) for variant in ("permuted", "moved", "threads")]
    rounded = Traces("float32", all_of("float32"), reruns, exact.plain)
    return [traces for traces in (exact, rounded) if traces.plain]


def _read(path: Path) -> Mapping[str, NDArray[Any]]:
    """Open a file of tensors; each is read when it is asked for, although the file is removed."""
    arrays: Mapping[str, NDArray[Any]] = np.load(path)
    return arrays
