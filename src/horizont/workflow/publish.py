"""What an experiment leaves under `reports/` for DVC and for the overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from horizont.analysis.faults import fault_outcomes
from horizont.analysis.input import input_metrics
from horizont.analysis.learning import losses
from horizont.analysis.throughput import metrics
from horizont.config.study import read_study
from horizont.config.system import FRAMEWORKS
from horizont.config.workload import Workload
from horizont.data.prepared import DatasetDescription, read_description
from horizont.equivalence.certificate import read_certificate
from horizont.records.files import write_json
from horizont.records.record import Record
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.provenance import certificate_provenance
from horizont.workflow.verify import variants_of

NO_CERTIFICATE = "not comparable: no proof was made"


def certificate_status(workload: str, paths: Paths | None = None) -> dict[str, str]:
    """Tell for each framework and build whether its times on a workload may be compared.

    Returns
    -------
    dict
        By framework, or framework and build, ``verified``, or ``not comparable: `` with the
        reason. A proof holds as long as network, versions and code are those it was made with.
    """
    paths = paths or study_paths()
    study = read_study(paths.params)
    trainers = [*FRAMEWORKS, *variants_of(study)]
    if not paths.certificate(workload).exists():
        return dict.fromkeys(trainers, NO_CERTIFICATE)
    described = study.workload(workload)
    about = read_description(paths.prepared(described.dataset))
    return status_from_certificate(paths.certificate(workload), described, about, trainers)


def status_from_certificate(
    certificate_file: Path, workload: Workload, dataset: DatasetDescription, trainers: Sequence[str]
) -> dict[str, str]:
    """Tell for each framework and build whether a proof covers a workload; see `proof_status`."""
    if not certificate_file.exists():
        return dict.fromkeys(trainers, NO_CERTIFICATE)
    proof = read_certificate(certificate_file)
    ground = certificate_provenance(workload, dataset, list(FRAMEWORKS))
    return {trainer: proof.status_for(trainer, ground) for trainer in trainers}


def publish_faults(
    experiment: str, workload: str, records: Sequence[Record], paths: Paths | None = None
) -> Path:
    """Write what came of the incidents on a workload, by system and incident."""
    columns = ["steps", "planned", "detected_after_s", "outcome"]
    table = fault_outcomes(records).reindex(columns=["system", "fault", "block", *columns])
    rows = table.astype(object).where(table.notna(), None).to_dict(orient="records")
    found: dict[str, dict[str, object]] = {}
    for row in rows:
        name = f"{row['fault']}, block {row['block'] + 1}"
        found.setdefault(row["system"], {})[name] = {key: row[key] for key in columns}
    return _write_metrics(experiment, workload, found, paths)


def publish_input_pipelines(
    experiment: str, workload: str, records: Sequence[Record], paths: Paths | None = None
) -> Path:
    """Write what the inputs gave and took on a workload, by system and input."""
    return _write_metrics(experiment, workload, input_metrics(records), paths)


def publish_metrics(
    experiment: str, workload: str, records: Sequence[Record], paths: Paths | None = None
) -> Path:
    """Write the metrics and the plotted curves of an experiment on a workload.

    Returns
    -------
    Path
        The file of metrics, for `dvc metrics show` and `dvc metrics diff`.
    """
    paths = paths or study_paths()
    paths.plots.mkdir(parents=True, exist_ok=True)
    write_json(paths.plots / f"{experiment}-{workload}-loss.json", _thinned_loss_curves(records))
    found = metrics(records, certificate_status(workload, paths))
    return _write_metrics(experiment, workload, found, paths)


def _write_metrics(
    experiment: str, workload: str, found: Mapping[str, Any], paths: Paths | None
) -> Path:
    out = (paths or study_paths()).metrics(f"{experiment}-{workload}")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_json(out, found)
    return out


def _thinned_loss_curves(records: Sequence[Record]) -> list[dict[str, object]]:
    """Reduce the loss curves of the first block to about a hundred points each."""
    curves = losses([record for record in records if record.run.block == 0])
    if curves.empty:
        return []
    thinned = curves[curves["step"] % max(1, int(curves["step"].max()) // 100) == 0]
    columns = ["system", "step", "loss"]
    return [dict(row) for row in thinned[columns].to_dict(orient="records")]  # type: ignore[arg-type]
