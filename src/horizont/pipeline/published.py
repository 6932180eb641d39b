"""What an experiment leaves under `reports/` for DVC and for the overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from horizont.analysis import incidents, input_metrics, losses, metrics
from horizont.data.about import About, read_about
from horizont.equivalence import read_proof
from horizont.pipeline.ground import proof_ground
from horizont.pipeline.paths import Paths, study_paths
from horizont.pipeline.prover import builds_of
from horizont.records import Record, write_json
from horizont.spec import FRAMEWORKS, Workload, read_study

NO_PROOF_MADE = "not comparable: no proof was made"


def proof_status(workload: str, paths: Paths | None = None) -> dict[str, str]:
    """Tell for each framework and build whether its times on a workload may be compared.

    Returns
    -------
    dict
        By framework, or framework and build, ``proven``, or ``not comparable: `` with the
        reason. A proof holds as long as network, versions and code are those it was made with.
    """
    paths = paths or study_paths()
    study = read_study(paths.params)
    trainers = [*FRAMEWORKS, *builds_of(study)]
    if not paths.proof(workload).exists():
        return dict.fromkeys(trainers, NO_PROOF_MADE)
    described = study.workload(workload)
    about = read_about(paths.prepared(described.dataset))
    return standing(paths.proof(workload), described, about, trainers)


def standing(
    proof_file: Path, workload: Workload, about: About, trainers: Sequence[str]
) -> dict[str, str]:
    """Tell for each framework and build whether a proof covers a workload; see `proof_status`."""
    if not proof_file.exists():
        return dict.fromkeys(trainers, NO_PROOF_MADE)
    proof = read_proof(proof_file)
    ground = proof_ground(workload, about, list(FRAMEWORKS))
    return {trainer: proof.stands_for(trainer, ground) for trainer in trainers}


def publish_incidents(
    experiment: str, workload: str, records: Sequence[Record], paths: Paths | None = None
) -> Path:
    """Write what came of the incidents on a workload, by system and incident."""
    columns = ["steps", "planned", "noticed_s", "outcome"]
    table = incidents(records).reindex(columns=["system", "incident", "block", *columns])
    rows = table.astype(object).where(table.notna(), None).to_dict(orient="records")
    found: dict[str, dict[str, object]] = {}
    for row in rows:
        name = f"{row['incident']}, block {row['block'] + 1}"
        found.setdefault(row["system"], {})[name] = {key: row[key] for key in columns}
    return _write_metrics(experiment, workload, found, paths)


def publish_inputs(
    experiment: str, workload: str, records: Sequence[Record], paths: Paths | None = None
) -> Path:
    """Write what the inputs gave and took on a workload, by system and input."""
    return _write_metrics(experiment, workload, input_metrics(records), paths)


def publish(
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
    write_json(paths.plots / f"{experiment}-{workload}-loss.json", _curve(records))
    found = metrics(records, proof_status(workload, paths))
    return _write_metrics(experiment, workload, found, paths)


def _write_metrics(
    experiment: str, workload: str, found: Mapping[str, Any], paths: Paths | None
) -> Path:
    out = (paths or study_paths()).metrics(f"{experiment}-{workload}")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_json(out, found)
    return out


def _curve(records: Sequence[Record]) -> list[dict[str, object]]:
    """Reduce the loss curves of the first block to about a hundred points each."""
    curves = losses([record for record in records if record.run.block == 0])
    if curves.empty:
        return []
    thinned = curves[curves["step"] % max(1, int(curves["step"].max()) // 100) == 0]
    columns = ["system", "step", "loss"]
    return [dict(row) for row in thinned[columns].to_dict(orient="records")]  # type: ignore[arg-type]
