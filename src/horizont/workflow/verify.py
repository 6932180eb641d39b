"""Verification that the frameworks train a workload equivalently."""

from __future__ import annotations

import os
import tempfile
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from horizont.analysis.loss_curves import Curve, shared_instability
from horizont.config.jobs import Perturbation, TraceJob, TracePath, TraceRun
from horizont.config.mutations import MUTATIONS
from horizont.config.study import Study
from horizont.config.system import (
    FRAMEWORKS,
    float32_rounding,
    framework_devices,
    parse_trainer_name,
    unusable_reason,
)
from horizont.data.prepared import DatasetDescription
from horizont.equivalence.certificate import (
    EquivalenceCertificate,
    make_certificate,
    write_certificate,
)
from horizont.equivalence.compare import Comparison, TraceSet, compare
from horizont.errors import UserError
from horizont.launchers.plan import plan_trace
from horizont.launchers.supervisor import run_in_parallel
from horizont.reporting.findings import unstable_sentence
from horizont.workflow.check import load_study
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.prepare import ensure_prepared
from horizont.workflow.progress import Progress
from horizont.workflow.provenance import certificate_provenance

VERIFY_TIMEOUT_S = 1800.0

#: From so many CPUs on, the trainings of a framework are divided among more processes.
MANY_CPUS = 8

#: The trainings of each framework, in float64, which decides, and in float32, which is timed: the
#: timed step, its reruns, which show rounding noise, and the other functions that are timed.
TRACE_RUNS = (
    TraceRun(dtype="float64"),
    TraceRun(dtype="float64", perturbation="repeat"),
    TraceRun(dtype="float64", perturbation="weight_ulp"),
    TraceRun(dtype="float64", perturbation="batch_order"),
    TraceRun(dtype="float64", path="instrumented"),
    TraceRun(dtype="float64", path="profiled"),
    TraceRun(dtype="float64", path="timed_batches"),
    TraceRun(dtype="float32"),
    TraceRun(dtype="float32", perturbation="repeat"),
    TraceRun(dtype="float32", perturbation="weight_ulp"),
    TraceRun(dtype="float32", perturbation="weight_ulp_down"),
    TraceRun(dtype="float32", perturbation="thread_count"),
    TraceRun(dtype="float32", path="instrumented"),
    TraceRun(dtype="float32", path="timed_batches"),
    TraceRun(dtype="float32", path="timed_batches", perturbation="weight_ulp"),
)

#: The training of each framework that the others are compared with.
_BASELINE = ("float64", "plain", "none")

#: Compute threads of the trainings, and of those that perturb their number.
DEFAULT_THREADS = 1
PERTURBED_THREADS = 2

#: The trainings of a variant; its noise is that of its framework.
VARIANT_TRACE_RUNS = tuple(
    run for run in TRACE_RUNS if run.perturbation in ("none", "repeat", "batch_order")
)

#: Tensors by name, of one training and of several.
Tensors = Mapping[str, NDArray[Any]]
TracedTensors = Mapping[TraceRun, Tensors]


def verify_workload(
    workload: str, paths: Paths | None = None, mutations: dict[str, str] | None = None
) -> EquivalenceCertificate:
    """Train a few steps in every framework, compare all tensors, and write the certificate.

    The variants that the study times are each compared with their own framework.

    Parameters
    ----------
    mutations
        Seeded defects by framework; the certificate is then returned and not written.

    Raises
    ------
    RunFailed
        If a framework cannot train at all.
    """
    for mutation in (mutations or {}).values():
        if mutation not in MUTATIONS:
            raise UserError("--mutate", mutation, MUTATIONS)
    paths = paths or study_paths()
    checker = checker_for(workload, paths)
    trainers = filter(_is_usable, [*FRAMEWORKS, *variants_of(checker.study, workload)])
    trace_runs = {name: VARIANT_TRACE_RUNS if "+" in name else TRACE_RUNS for name in trainers}
    for trainer, mutation in (mutations or {}).items():
        if trainer not in trace_runs:
            raise UserError("--mutate", trainer, trace_runs)
        trace_runs[trainer] = with_mutation(trace_runs[trainer], mutation)
    traced = checker.train(trace_runs, "verification")
    if shown := shared_instability([[_compared_losses(runs)] for runs in traced.values()]):
        print(f"{unstable_sentence(shown)} In later steps, rounding alone makes differences.")
    certificate = checker.certificate(traced)
    if not mutations:
        write_certificate(paths.certificate(workload), certificate)
    return certificate


def _compared_losses(runs: TracedTensors) -> Curve:
    """Return the losses of the compared steps in float64; in between, that of the one before."""
    tensors = next(
        tensors
        for run, tensors in runs.items()
        if (run.dtype, run.path, run.perturbation) == _BASELINE
    )
    losses = {1: tensors["loss/0/loss"]}
    for name in tensors:
        quantity, step, _ = name.split("/")
        if quantity == "step_loss":
            losses[int(step)] = tensors[name]
    steps = sorted(losses)
    before = np.searchsorted(steps, np.arange(1, steps[-1] + 1), side="right") - 1
    return np.array([float(losses[steps[each]]) for each in before])


def _is_usable(trainer: str) -> bool:
    framework, _, device = parse_trainer_name(trainer)
    has_device = device == "cpu" or framework_devices(framework).names
    return bool(has_device and not unusable_reason(framework))


def with_mutation(runs: Iterable[TraceRun], mutation: str) -> tuple[TraceRun, ...]:
    """Return trainings with a seeded defect."""
    return tuple(run.model_copy(update={"mutation": mutation}) for run in runs)


def variants_of(study: Study, workload: str) -> list[str]:
    """List the variants that are timed on a workload, as `<framework>+<variant>+<device>`."""
    names = dict.fromkeys(run.trainer_name for run in study.runs_on(workload))
    return [name for name in names if "+" in name]


def checker_for(workload: str, paths: Paths) -> EquivalenceChecker:
    """Return the checker of a workload, with its data set prepared."""
    study = load_study(paths)
    dataset = ensure_prepared(study, study.workload(workload).dataset, paths)
    return EquivalenceChecker(study, workload, dataset, paths.prepared(dataset.name).resolve())


@dataclass(frozen=True)
class EquivalenceChecker:
    """Trains a workload in several frameworks and compares their tensors."""

    study: Study
    workload: str
    dataset: DatasetDescription
    data_folder: Path

    def train(
        self, trace_runs: Mapping[str, Sequence[TraceRun]], purpose: str
    ) -> Mapping[str, TracedTensors]:
        """Train in some frameworks or variants, each in its own processes.

        The purpose is shown with the progress.
        """
        with tempfile.TemporaryDirectory(prefix="horizont-") as folder:
            jobs = [
                job
                for name, runs in trace_runs.items()
                for job in self._trace_jobs(name, runs, Path(folder))
            ]
            # Those on a GPU, which compile longest, start first.
            jobs.sort(key=lambda job: job.device == "cpu")
            progress = Progress("training", len(jobs))
            progress.start(f"{self.workload} {purpose}")
            trainers = {job.folder: job.framework_variant for job in jobs}
            run_in_parallel(
                [plan_trace(job) for job in jobs],
                VERIFY_TIMEOUT_S,
                lambda process: progress.finish(f"{trainers[process.folder]} done"),
            )
            # Opened files are read on access, even after they are removed.
            traced: dict[str, dict[TraceRun, Tensors]] = {name: {} for name in trace_runs}
            for job in jobs:
                for run in job.runs:
                    traced[job.framework_variant][run] = np.load(job.folder / run.file_name)
        progress.close()
        return traced

    def _trace_jobs(
        self, trainer: str, trace_runs: Sequence[TraceRun], folder: Path
    ) -> Iterator[TraceJob]:
        """Group the trainings into processes: one for each number of threads.

        On a GPU, where compiling takes most of the time, and on a machine with many CPUs they are
        more, with fewer trainings each.
        """
        schedule = self.study.equivalence.schedule_for(self.workload)
        framework, variant, device = parse_trainer_name(trainer)
        timed_batches = self.study.timed_batches(self.workload)
        if not timed_batches:
            trace_runs = [run for run in trace_runs if run.path != "timed_batches"]
        is_divided = device != "cpu" or len(os.sched_getaffinity(0)) >= MANY_CPUS
        groups: dict[tuple[int, str], list[TraceRun]] = {}
        for run in trace_runs:
            is_perturbed = run.perturbation == "thread_count"
            threads = PERTURBED_THREADS if is_perturbed else DEFAULT_THREADS
            part = f"-{run.dtype}-{run.path}" if is_divided else ""
            groups.setdefault((threads, part), []).append(run)
        for (threads, part), runs in groups.items():
            yield TraceJob(
                framework=framework,
                variant=variant,
                workload=self.study.workload(self.workload),
                batch=schedule.batch,
                at_steps=schedule.at_steps,
                timed_batches=timed_batches,
                learning_rates=self.study.swept_learning_rates(self.workload),
                longest_run=self.study.longest_run(self.workload),
                runs=tuple(runs),
                seed=self.study.seed,
                threads=threads,
                device=device,
                data_folder=self.data_folder,
                folder=folder / f"{trainer}-{threads}{part}",
            )

    def comparisons(self, traced: Mapping[str, TracedTensors]) -> Iterator[Comparison]:
        """Compare all tensors of the frameworks, float64 first."""
        for traces in _trace_sets_by_dtype(traced):
            yield from compare(traces)

    def certificate(self, traced: Mapping[str, TracedTensors]) -> EquivalenceCertificate:
        """Compare all tensors of the frameworks, and make the certificate."""
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
            timed_batches=self.study.timed_batches(self.workload),
            learning_rates=self.study.swept_learning_rates(self.workload),
            missing={name: unusable_reason(name) for name in FRAMEWORKS if name not in installed},
        )


#: The perturbations that show rounding noise.
_NOISE_PERTURBATIONS: tuple[Perturbation, ...] = ("weight_ulp", "weight_ulp_down", "thread_count")

#: The trainings that a check compares with the baseline.
CHECK_RUNS: dict[str, tuple[TracePath, Perturbation]] = {
    "repeat": ("plain", "repeat"),
    "rows": ("plain", "batch_order"),
    "instrumented": ("instrumented", "none"),
    "profiled": ("profiled", "none"),
}


def _trace_sets_by_dtype(traced: Mapping[str, TracedTensors]) -> list[TraceSet]:
    """Group the tensors by precision; one without trainings is omitted."""
    sets = []
    exact: Mapping[str, Tensors] = {}
    for dtype in ("float64", "float32"):
        by_dtype = {
            trainer: {
                (run.path, run.perturbation): t for run, t in runs.items() if run.dtype == dtype
            }
            for trainer, runs in traced.items()
        }
        tensors_of = partial(_select_tensors, by_dtype)
        baseline = tensors_of("plain", "none")
        if not baseline:
            continue
        sets.append(
            TraceSet(
                dtype,
                baseline,
                reruns=[tensors_of("plain", each) for each in _NOISE_PERTURBATIONS],
                checks={check: tensors_of(*run) for check, run in CHECK_RUNS.items()},
                float64_reference=exact,
                rounding={trainer: float32_rounding(trainer) for trainer in traced},
            )
        )
        exact = baseline
    return sets


def _select_tensors(
    by_run: Mapping[str, Mapping[tuple[TracePath, Perturbation], Tensors]],
    path: TracePath,
    perturbation: Perturbation,
) -> dict[str, Tensors]:
    """Return the tensors of a run by trainer, with those of the timed batches."""
    selected: dict[str, Tensors] = {}
    for trainer, runs in by_run.items():
        paths: list[TracePath] = [path, "timed_batches"] if path == "plain" else [path]
        found = [runs[each, perturbation] for each in paths if (each, perturbation) in runs]
        if found:
            selected[trainer] = ChainMap(*cast(list[MutableMapping[str, NDArray[Any]]], found))
    return selected
