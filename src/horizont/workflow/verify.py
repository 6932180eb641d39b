"""Proving that the frameworks train the same network on a workload."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from horizont.config.jobs import TraceJob, TraceRun
from horizont.config.study import Study
from horizont.config.system import DEFAULT, FRAMEWORKS, Variant, installed_version
from horizont.data.prepared import DatasetDescription
from horizont.equivalence.certificate import (
    EquivalenceCertificate,
    make_certificate,
    write_certificate,
)
from horizont.equivalence.compare import Comparison, TraceSet, compare
from horizont.launchers.plan import plan_trace
from horizont.launchers.supervisor import run_in_parallel
from horizont.workflow.check import load_study
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.prepare import ensure_prepared
from horizont.workflow.progress import Progress
from horizont.workflow.provenance import certificate_provenance

VERIFY_TIMEOUT_S = 1800.0

#: The trainings of each framework: the proof and the precision of the times, with their noise.
TRACE_RUNS = (
    TraceRun(dtype="float64"),
    TraceRun(dtype="float64", perturbation="batch_order"),
    TraceRun(dtype="float32"),
    TraceRun(dtype="float32", perturbation="batch_order"),
    TraceRun(dtype="float32", perturbation="weight_ulp"),
    TraceRun(dtype="float32", perturbation="thread_count"),
)

#: Compute threads of the trainings, and of those with another number.
DEFAULT_THREADS = 1
PERTURBED_THREADS = 2

#: Those of another build of a framework, whose noise is the framework's.
VARIANT_TRACE_RUNS = (TraceRun(dtype="float64"), TraceRun(dtype="float32"))

#: Tensors by name, of each pass.
TracedTensors = Mapping[TraceRun, Mapping[str, NDArray[Any]]]


def verify_workload(
    workload: str, paths: Paths | None = None, mutations: dict[str, str] | None = None
) -> EquivalenceCertificate:
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
    prover = checker_for(workload, paths)
    passes: dict[str, Sequence[TraceRun]] = {
        **dict.fromkeys(FRAMEWORKS, TRACE_RUNS),
        **dict.fromkeys(variants_of(prover.study), VARIANT_TRACE_RUNS),
    }
    told = prover.train(
        {
            trainer: [
                training.model_copy(update={"mutation": (mutations or {}).get(trainer)})
                for training in trainings
            ]
            for trainer, trainings in passes.items()
            if installed_version(trainer.partition("+")[0])
        },
        "compared",
    )
    proof = prover.certificate(told)
    if not mutations:
        write_certificate(paths.certificate(workload), proof)
    return proof


def variants_of(study: Study) -> list[str]:
    """List the builds that a study times, with their frameworks: `pytorch+compiled`."""
    built = (system.framework_variant for system in study.systems() if system.variant != DEFAULT)
    return list(dict.fromkeys(built))


def checker_for(workload: str, paths: Paths) -> EquivalenceChecker:
    """Prepare the trainings of a workload."""
    study = load_study(paths)
    about = ensure_prepared(study, study.workload(workload).dataset, paths)
    return EquivalenceChecker(study, workload, about, paths.prepared(about.name).resolve())


@dataclass(frozen=True)
class EquivalenceChecker:
    """The trainings of one proof, and what follows from them."""

    study: Study
    workload: str
    dataset: DatasetDescription
    data_folder: Path

    def train(
        self, trace_runs: Mapping[str, Sequence[TraceRun]], purpose: str
    ) -> Mapping[str, TracedTensors]:
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
                job
                for name, own in trace_runs.items()
                for job in self._trace_jobs(name, own, Path(made))
            ]
            progress = Progress("training", len(jobs))
            progress.start(f"{self.workload} {purpose}")
            trainers = {job.folder: job.framework_variant for job in jobs}
            run_in_parallel(
                [plan_trace(job) for job in jobs],
                VERIFY_TIMEOUT_S,
                lambda planned: progress.finish(f"{trainers[planned.folder]} done"),
            )
            told: dict[str, TracedTensors] = {name: {} for name in trace_runs}
            for job in jobs:
                own = {
                    training: _open_tensors(job.folder / training.file_name)
                    for training in job.runs
                }
                told[job.framework_variant] = {**told[job.framework_variant], **own}
        progress.close()
        return told

    def _trace_jobs(
        self, trainer: str, trace_runs: Sequence[TraceRun], folder: Path
    ) -> list[TraceJob]:
        """Deal trainings to processes: one for all, and one for another number of threads."""
        usual = [training for training in trace_runs if training.perturbation != "thread_count"]
        other = [training for training in trace_runs if training.perturbation == "thread_count"]
        dealt = ((usual, DEFAULT_THREADS), (other, PERTURBED_THREADS))
        return [
            self._trace_job(trainer, own, threads, folder / f"{trainer}-{threads}")
            for own, threads in dealt
            if own
        ]

    def _trace_job(
        self, trainer: str, trace_runs: Sequence[TraceRun], threads: int, folder: Path
    ) -> TraceJob:
        following = self.study.equivalence.schedule_for(self.workload)
        framework, _, build = trainer.partition("+")
        return TraceJob(
            framework=framework,
            variant=cast(Variant, build or DEFAULT),
            workload=self.study.workload(self.workload),
            batch=following.batch,
            at_steps=following.at_steps,
            runs=tuple(trace_runs),
            seed=self.study.seed,
            threads=threads,
            data_folder=self.data_folder,
            folder=folder,
        )

    def comparisons(self, traced: Mapping[str, TracedTensors]) -> Iterator[Comparison]:
        """Compare what the frameworks told, tensor by tensor, the exact precision first."""
        for traces in _trace_sets_by_dtype(traced):
            yield from compare(traces)

    def certificate(self, traced: Mapping[str, TracedTensors]) -> EquivalenceCertificate:
        """Compare all that the frameworks told."""
        workload = self.study.workload(self.workload)
        installed = [name for name in traced if "+" not in name]
        return make_certificate(
            self.comparisons(traced),
            workload=self.workload,
            network=workload.network,
            dataset=workload.dataset,
            source=self.dataset.source,
            provenance=certificate_provenance(workload, self.dataset, installed),
            frameworks=tuple(installed),
            variants=tuple(name for name in traced if "+" in name),
            missing={
                name: f"{name} is not installed" for name in FRAMEWORKS if name not in installed
            },
        )


def _trace_sets_by_dtype(traced: Mapping[str, TracedTensors]) -> list[TraceSet]:
    """Sort what was told by precision; a precision that nobody trained in is left out."""

    def all_of(dtype: str, variant: str = "none") -> dict[str, Mapping[str, NDArray[Any]]]:
        return {
            framework: tensors
            for framework, passes in traced.items()
            for training, tensors in passes.items()
            if (training.dtype, training.perturbation) == (dtype, variant)
        }

    exact = TraceSet("float64", all_of("float64"), [all_of("float64", "batch_order")])
    reruns = [
        all_of("float32", variant) for variant in ("batch_order", "weight_ulp", "thread_count")
    ]
    rounded = TraceSet("float32", all_of("float32"), reruns, exact.baseline)
    return [traces for traces in (exact, rounded) if traces.baseline]


def _open_tensors(path: Path) -> Mapping[str, NDArray[Any]]:
    """Open a file of tensors; each is read when it is asked for, although the file is removed."""
    arrays: Mapping[str, NDArray[Any]] = np.load(path)
    return arrays
