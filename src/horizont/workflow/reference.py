"""The reference: records of a whole study in packs, which a clone reports without measuring."""

from __future__ import annotations

import gzip
import json
import shutil
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from horizont.analysis.reproduction import Results
from horizont.config.run import Run
from horizont.config.study import Study, read_study
from horizont.data.prepared import DatasetDescription, read_description
from horizont.equivalence.certificate import (
    EquivalenceCertificate,
    parse_certificate,
    read_certificate,
)
from horizont.errors import Problem, UserError
from horizont.records.pack import MANIFEST, PARAMS, PackContext, write_pack
from horizont.records.packed_record import Pack
from horizont.records.record import Record, read_record
from horizont.workflow.check import with_local_fallback
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.publish import certificate_status

VERIFIED = "verified"


def pack_experiment(name: str, paths: Paths, workloads: Sequence[str] = ()) -> str:
    """Pack the records of an experiment's planned runs, and describe the pack in a line.

    Of several records of a run, the newest is packed, whatever code it was measured with. By
    default all workloads are packed; of those that are not named, the ones that the pack already
    has remain in it. Refuses a planned run without a record, and a workload with records from
    several machines.
    """
    study = read_study(paths.params)
    planned = study.experiment(name).workloads
    for workload in workloads:
        if workload not in planned:
            raise UserError("workload", workload, planned)
    measured = _measured_part(study, name, workloads or planned, paths)
    remaining = _remaining_part(study, name, measured, paths)
    by_workload = remaining.records | measured.records
    records = [record for workload in planned for record in by_workload.get(workload, ())]
    context = PackContext(
        params=paths.params.read_text(encoding="utf-8"),
        version=version("horizont"),
        datasets=remaining.datasets | measured.datasets,
        certificates=remaining.certificates | measured.certificates,
    )
    manifest = write_pack(paths.pack(name), records, context)
    device = study.experiment(name).topology.device
    for workload in measured.records:
        certificate = paths.certificate(workload)
        packed = paths.reference_certificate(workload, device)
        if certificate.exists() and not _covers_more(packed, certificate):
            packed.parent.mkdir(exist_ok=True)
            packed.write_bytes(gzip.compress(certificate.read_bytes(), mtime=0))  # reproducible
    counts = Counter(record.result.status for record in records)
    runs = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    size_mib = sum(facts.bytes for facts in manifest.files.values()) / 2**20
    return f"{paths.pack(name)}: {manifest.runs} runs ({runs}), {size_mib:.2f} MiB"


@dataclass(frozen=True)
class _Part:
    """A part of a pack: records and certificates by workload, and data sets by name."""

    records: dict[str, Sequence[Record]] = field(default_factory=dict)
    datasets: dict[str, dict[str, Any]] = field(default_factory=dict)
    certificates: dict[str, dict[str, str]] = field(default_factory=dict)


def _measured_part(study: Study, name: str, workloads: Sequence[str], paths: Paths) -> _Part:
    """Open the records of the study, and the status of the frameworks and variants in them."""
    records: dict[str, Sequence[Record]] = {
        workload: _newest_records(study, name, workload, paths) for workload in workloads
    }
    certificates = {}
    for workload, found in records.items():
        # Others may not be in the certificate, which is no reason against them in other packs.
        trainers = {record.run.trainer_name for record in found}
        status = certificate_status(workload, paths)
        certificates[workload] = {name: status[name] for name in status if name in trainers}
    return _Part(
        records,
        {
            dataset: read_description(paths.prepared(dataset)).model_dump(mode="json")
            for dataset in sorted({study.workload(workload).dataset for workload in workloads})
        },
        certificates,
    )


def _remaining_part(study: Study, name: str, measured: _Part, paths: Paths) -> _Part:
    """Open what remains of the earlier pack: the planned workloads that are not measured.

    Raises `UserError` if it is of other settings or data: one pack has one description of both.
    """
    planned = study.experiment(name).workloads
    if name not in packed_experiments(paths) or set(planned) <= set(measured.records):
        return _Part()
    manifest = (pack := Pack(paths.pack(name))).manifest
    workloads = [
        workload
        for workload in planned
        if workload in manifest.certificates and workload not in measured.records
    ]
    records: dict[str, Sequence[Record]] = {name: pack.records(name) for name in workloads}
    # With the fields of today: the pack may be older than one of them.
    datasets = {
        dataset: DatasetDescription.model_validate(values).model_dump(mode="json")
        for dataset, values in manifest.datasets.items()
    }
    for workload in workloads:
        dataset = study.workload(workload).dataset
        runs = [run.model_dump_json() for run in _planned_runs(study, name, workload)]
        packed = [record.run.model_dump_json() for record in records[workload]]
        described = datasets[dataset]
        if runs != packed or measured.datasets.get(dataset, described) != described:
            value = f"with other {'settings' if runs != packed else 'data'} than now"
            allowed = f"unchanged; or pack it again, too: `horizont pack {name}`"
            raise UserError(f"{workload} in {paths.pack(name)}", Problem(value), allowed)
    named = {study.workload(workload).dataset for workload in workloads}
    return _Part(
        records,
        {dataset: datasets[dataset] for dataset in named},
        {workload: manifest.certificates[workload] for workload in workloads},
    )


def reference_certificates(paths: Paths | None = None) -> list[EquivalenceCertificate]:
    """Open the certificates of the reference, in the order of their workloads."""
    paths = paths or study_paths()
    packed = sorted(paths.reference_certificate("*").parent.glob("*.json.gz"))
    return [_read_packed_certificate(file) for file in packed]


def _read_packed_certificate(file: Path) -> EquivalenceCertificate:
    """Read a certificate of the reference; refuse a damaged one."""
    try:
        values = json.loads(gzip.decompress(file.read_bytes()))
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise UserError(str(file), Problem(str(error)), "an intact certificate") from None
    return parse_certificate(values, file)


def _covers_more(packed: Path, certificate: Path) -> bool:
    """Whether a packed certificate has all systems of one to be packed, and others."""
    try:
        before, now = _read_packed_certificate(packed), read_certificate(certificate)
    except UserError:  # none was packed, or of another format
        return False
    return {*before.frameworks, *before.variants} > {*now.frameworks, *now.variants}


def _newest_records(study: Study, experiment: str, workload: str, paths: Paths) -> list[Record]:
    """Open the newest record of each planned run, in the order of the plan.

    Unlike :func:`horizont.workflow.measure.find_planned_records`, without regard to the code and
    the machine of the records.
    """
    found: dict[str, Record] = {}
    for path in sorted(paths.records(experiment, workload).glob("[!.]*/result.json")):
        record = read_record(path.parent)
        identity = record.run.model_dump_json()
        if identity not in found or found[identity].start_time_s < record.start_time_s:
            found[identity] = record
    planned = _planned_runs(study, experiment, workload)
    records = [found.get(run.model_dump_json()) for run in planned]
    if missing := records.count(None):
        value = f"{missing} of {len(planned)} runs on {workload} have none"
        allowed = f"all of them; run `horizont run {experiment} {workload}` first"
        raise UserError(f"records of {experiment}", Problem(value), allowed)
    return [record for record in records if record is not None]


def _planned_runs(study: Study, experiment: str, workload: str) -> list[Run]:
    return [with_local_fallback(run) for run in study.runs(experiment, workload)]


def unpack_experiment(name: str, folder: Path, paths: Paths) -> int:
    """Restore the records of an intact pack to new folders, and return their number."""
    pack = Pack(paths.pack(name))
    pack.check()
    target = folder / name
    if folder.exists() and not folder.is_dir():
        raise UserError("folder", str(folder), "a folder, or the name of a new one")
    if target.exists():
        raise UserError("folder", str(target), "a folder that does not exist yet")
    records = pack.records()
    try:
        for record in records:
            record.restore(target / record.row["run"])
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        allowed = f"a writable folder ({error.strerror})"
        raise UserError("folder", str(folder), allowed) from None
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return len(records)


def open_pack(name: str, paths: Paths) -> tuple[Pack, Study]:
    """Open the pack of an experiment, and the settings of the study that it is from.

    The experiment has the workloads only that were packed.
    """
    pack = Pack(paths.pack(name))
    pack.read(PARAMS)
    study = read_study(pack.folder / PARAMS)
    experiment = study.experiment(name)
    packed = tuple(one for one in experiment.workloads if one in pack.manifest.certificates)
    experiment = experiment.model_copy(update={"workloads": packed})
    return pack, study.model_copy(update={"experiments": {**study.experiments, name: experiment}})


def packed_experiments(paths: Paths) -> list[str]:
    """List the experiments that have a pack."""
    return sorted(path.parent.name for path in paths.reference.glob(f"[!.]*/{MANIFEST}"))


def open_packs(paths: Paths) -> dict[str, tuple[Pack, Study]]:
    """Open the packs of the reference study, by experiment, with their settings.

    Packs of runs on GPUs are not among them: they are a reference of their own.
    """
    packs = {name: open_pack(name, paths) for name in packed_experiments(paths)}
    return {
        name: (pack, study)
        for name, (pack, study) in packs.items()
        if study.experiment(name).topology.device == "cpu"
    }


def open_reference(paths: Paths) -> Results:
    """Open the records of the reference study, with the status of their certificates."""
    packs = [pack for pack, _ in open_packs(paths).values()]
    certificates: dict[str, dict[str, str]] = {}
    for pack in packs:
        for workload, status in pack.manifest.certificates.items():
            known = certificates.setdefault(workload, {})
            # Experiments may be packed at different times: a status other than verified counts.
            known |= {
                name: text for name, text in status.items() if known.get(name, VERIFIED) == VERIFIED
            }
    return Results([record for pack in packs for record in pack.records()], certificates)
