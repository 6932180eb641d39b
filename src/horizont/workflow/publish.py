"""What a study publishes: metrics and plots for DVC, scalars for TensorBoard."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from horizont.analysis.faults import fault_outcomes
from horizont.analysis.input import waiting_times
from horizont.analysis.learning import losses
from horizont.analysis.loss_curves import diverging_losses
from horizont.analysis.runs import CertificateStatus
from horizont.analysis.throughput import metrics
from horizont.config.study import Study, read_study
from horizont.config.system import FRAMEWORKS
from horizont.config.workload import Workload
from horizont.data.prepared import DatasetDescription, read_description
from horizont.equivalence.certificate import read_certificate
from horizont.errors import UserError
from horizont.networks.catalogue import network_for
from horizont.networks.layers import Dropout
from horizont.records.files import read_json, write_json
from horizont.records.record import Record
from horizont.reporting.labels import records_by_point
from horizont.reporting.tensorboard import write_event_files
from horizont.workflow.measure import find_planned_records
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.provenance import certificate_provenance
from horizont.workflow.verify import variants_of

NO_CERTIFICATE = "not comparable: no equivalence certificate"

#: Values for ``dvc metrics``, by name.
Metrics = dict[str, Any]


def certificate_status(workload: str, paths: Paths | None = None) -> dict[str, str]:
    """Return, by framework and variant, whether times on a workload may be compared.

    The value is ``verified``, or ``not comparable: `` with the reason. A certificate is valid for
    the network, versions and code that it was made with.
    """
    paths = paths or study_paths()
    study = read_study(paths.params)
    trainers = [*FRAMEWORKS, *variants_of(study, workload)]
    settings = study.workload(workload)
    if not paths.certificate(workload).exists():
        return dict.fromkeys(trainers, NO_CERTIFICATE)
    try:
        dataset = read_description(paths.prepared(settings.dataset))
    except UserError:
        return dict.fromkeys(trainers, f"not comparable: {settings.dataset} is not prepared")
    status = status_from_certificate(paths.certificate(workload), settings, dataset, trainers)
    return status | _diverging_runs(study, workload, dataset, paths)


#: The least relative difference of later losses that a defect of a run must make.
_LEAST_LOSS_BOUND = 0.05


def _diverging_runs(
    study: Study, workload: str, dataset: DatasetDescription, paths: Paths
) -> dict[str, str]:
    """Return the status of frameworks and variants whose measured losses are not the others'.

    Networks with dropout are not compared: in a measured run every framework draws its own masks.
    """
    network = network_for(study.workload(workload), dataset.shape, dataset.classes)
    if any(isinstance(layer, Dropout) for layer in network.layers):
        return {}
    records = [
        record
        for name in study.experiments_on(workload)
        for record in find_planned_records(study, name, workload, paths)[0]
    ]
    try:
        bound = read_certificate(paths.certificate(workload)).loss_bound
    except UserError:  # without a valid certificate, nothing is comparable
        return {}
    diverging = diverging_losses(records, max(bound, _LEAST_LOSS_BOUND))
    return {trainer: f"not comparable: {reason}" for trainer, reason in diverging.items()}


def status_from_certificate(
    file: Path, workload: Workload, dataset: DatasetDescription, trainers: Sequence[str]
) -> dict[str, str]:
    """Return the status of each framework and variant; see :func:`certificate_status`."""
    if not file.exists():
        return dict.fromkeys(trainers, NO_CERTIFICATE)
    try:
        certificate = read_certificate(file)
    except UserError as error:  # of another format, for example
        return dict.fromkeys(trainers, f"not comparable: {error}")
    provenance = certificate_provenance(workload, dataset, list(FRAMEWORKS))
    return {trainer: certificate.status_for(trainer, provenance) for trainer in trainers}


def publish(experiment: str, workload: str, records: Sequence[Record]) -> None:
    """Write the metrics of an experiment on a workload, and the loss curves of a training.

    One file for ``dvc metrics`` and one for ``dvc plots`` hold those of all workloads of the
    experiment. Each system has one number, so that `dvc metrics show` and `dvc exp show` fit a
    screen; the tables of the report have all others.
    """
    paths = study_paths()
    settings = read_study(paths.params).experiment(experiment)
    values = METRICS[settings.kind](records, certificate_status(workload, paths))
    metrics_file, plots_file = paths.metrics(experiment), paths.plots(experiment)
    for file in (metrics_file, plots_file):
        file.parent.mkdir(parents=True, exist_ok=True)
    published = read_json(metrics_file) if metrics_file.exists() else {}
    write_json(
        metrics_file,
        {name: {**published.get(name, {}), workload: value} for name, value in values.items()},
    )
    curves = read_json(plots_file) if plots_file.exists() else []
    curves = [row for row in curves if row["workload"] != workload]
    if settings.kind == "training":
        curves += _thinned_loss_curves(workload, records)
    write_json(plots_file, curves)


def _training_metrics(records: Sequence[Record], status: CertificateStatus) -> Metrics:
    """Return throughput by system, and how many systems and runs it can be relied on."""
    by_system = metrics(records, status)
    return {
        "examples_per_s": {name: own["examples_per_s"] for name, own in by_system.items()},
        **_reliability(by_system.values()),
    }


def _sweep_metrics(records: Sequence[Record], status: CertificateStatus) -> Metrics:
    """Return the same by sweep point."""
    points = {point: metrics(own, status) for point, own in records_by_point(records).items()}
    throughput = {
        point: {name: own["examples_per_s"] for name, own in by_system.items()}
        for point, by_system in points.items()
    }
    every = [own for by_system in points.values() for own in by_system.values()]
    return {"examples_per_s": throughput, **_reliability(every)}


def _reliability(systems: Collection[Mapping[str, Any]]) -> Metrics:
    comparable = sum(own["comparable"] == "verified" for own in systems)
    return {
        "comparable": f"{comparable} of {len(systems)}",
        "disturbed": sum(own["disturbed"] for own in systems),
    }


def _fault_metrics(records: Sequence[Record], _: CertificateStatus) -> Metrics:
    """Return the outcome of the faults, by system and fault."""
    table = fault_outcomes(records).reindex(columns=["system", "fault", "block", "outcome"])
    outcomes: dict[str, dict[str, object]] = {}
    for row in table.astype(object).where(table.notna(), None).to_dict(orient="records"):
        name = f"{row['fault']}, block {row['block'] + 1}"
        outcomes.setdefault(row["system"], {})[name] = row["outcome"]
    return {"outcome": outcomes}


def _input_metrics(records: Sequence[Record], _: CertificateStatus) -> Metrics:
    """Return the time that a step waits for its batch, by system and input."""
    return {"wait_s": waiting_times(records)}


#: Kind of an experiment -> the function that computes its metrics on a workload, by name.
METRICS: dict[str, Callable[[Sequence[Record], CertificateStatus], Metrics]] = {
    "training": _training_metrics,
    "sweep": _sweep_metrics,
    "faults": _fault_metrics,
    "input": _input_metrics,
}


def _thinned_loss_curves(workload: str, records: Sequence[Record]) -> list[dict[str, object]]:
    """Reduce the loss curves of the first block to about a hundred points each."""
    curves = losses([record for record in records if record.run.block == 0])
    if curves.empty:
        return []
    thinned = curves[curves["step"] % max(1, int(curves["step"].max()) // 100) == 0]
    rows = thinned[["system", "step", "loss"]].assign(workload=workload)
    return rows.to_dict(orient="records")  # type: ignore[return-value]


def export_tensorboard(
    paths: Paths, logdir: Path | None = None, follow_s: float | None = None
) -> None:
    """Write event files of all runs for TensorBoard, and print the numbers of runs.

    By default they are written to ``tensorboard`` in the folder of the study, and once;
    `follow_s` is the interval of repetitions until interrupted.
    """
    # TensorBoard reads event files in the order of the seconds in their names.
    if follow_s is not None and not follow_s > 1:
        raise UserError("--follow", follow_s, "more than one second")
    logdir = logdir or paths.root / "tensorboard"
    announcement = f"to view them: tensorboard --logdir {logdir}"
    while True:
        exported = write_event_files(paths.all_records, logdir)
        if announcement:
            print(announcement)
            announcement = ""
        print(
            f"{exported['written']} runs written, {exported['unchanged']} unchanged, "
            f"{exported['running']} running, {exported['without_scalars']} without scalars",
            flush=True,
        )
        if follow_s is None:
            return
        time.sleep(follow_s)
