"""The report as an RO-Crate: its parts, its licence, and the runs that it was made from.

Format: RO-Crate Metadata Specification 1.1, https://w3id.org/ro/crate/1.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import metadata
from typing import Any

from horizont.records.files import write_json
from horizont.records.pack import MANIFEST, PARAMS, RUNS
from horizont.records.packed_record import Pack
from horizont.records.record import Record
from horizont.workflow.paths import Paths
from horizont.workflow.reference import packed_experiments
from horizont.workflow.reported import open_reported_study

_SPECIFICATION = "https://w3id.org/ro/crate/1.1"
_SOFTWARE, _AUTHOR = "#horizont", "#maintainers"

#: Files of the report -> their title and media type.
_FILES = {
    "horizont.pdf": ("The book", "application/pdf"),
    "claims.json": ("Verdicts on the published claims", "application/json"),
}

#: Files of a pack -> their media type.
_PACK_FILES = {
    MANIFEST: "application/json",
    PARAMS: "application/yaml",
    RUNS: "application/vnd.apache.parquet",
}

Entity = dict[str, Any]


def write_crate(paths: Paths) -> None:
    """Describe ``reports`` as an RO-Crate; without any record, leave the description as it is."""
    records = open_reported_study(paths).records
    if records:
        graph = list(_entities(paths, records))
        write_json(paths.crate, {"@context": f"{_SPECIFICATION}/context", "@graph": graph})


def _entities(paths: Paths, records: Sequence[Record]) -> Iterator[Entity]:
    package = metadata("horizont")
    licence = f"https://spdx.org/licenses/{package['License-Expression']}"
    contents = [
        _file(name, title, media_type)
        for name, (title, media_type) in _FILES.items()
        if (paths.reports / name).exists()
    ]
    contents += [entity for name in packed_experiments(paths) for entity in _pack(name, paths)]
    yield _entity(
        paths.crate.name,
        "CreativeWork",
        conformsTo=_reference(_SPECIFICATION),
        about=_reference("./"),
    )
    yield _entity(
        "./",
        "Dataset",
        name="The report of Horizont",
        description=package["Summary"],
        datePublished=_utc(max(record.start_time_s for record in records))[:10],
        license=_reference(licence),
        author=_reference(_AUTHOR),
        hasPart=[_reference(one["@id"]) for one in contents if one["@type"] != "CreateAction"],
        mentions=[_reference(one["@id"]) for one in contents if one["@type"] == "CreateAction"],
    )
    yield _entity(licence, "CreativeWork", name=package["License-Expression"])
    yield _entity(_AUTHOR, "Organization", name="The Horizont maintainers")
    version = package["Version"]
    yield _entity(_SOFTWARE, "SoftwareApplication", name="Horizont", softwareVersion=version)
    yield from contents


def _pack(name: str, paths: Paths) -> Iterator[Entity]:
    """Yield the pack of an experiment, its files, and the action that made it."""
    pack = Pack(paths.pack(name))
    folder = f"{paths.pack(name).relative_to(paths.reports)}/"
    machines = sorted({*pack.manifest.machines.values()} - {""})
    starts_s = [record.start_time_s for record in pack.records()]
    yield _entity(
        folder,
        "Dataset",
        name=f"Records of the experiment {name}",
        description=f"{pack.manifest.runs} runs on {' and '.join(machines) or 'a machine'}",
        hasPart=[_reference(f"{folder}{file}") for file in _PACK_FILES],
    )
    for file, media_type in _PACK_FILES.items():
        yield _file(f"{folder}{file}", f"{file} of {name}", media_type)
    yield _entity(
        f"#run-{name}",
        "CreateAction",
        name=f"horizont run {name}",
        startTime=_utc(min(starts_s)),
        endTime=_utc(max(starts_s)),
        agent=_reference(_AUTHOR),
        instrument=_reference(_SOFTWARE),
        result=_reference(folder),
    )


def _entity(identifier: str, kind: str, **properties: Any) -> Entity:
    return {"@id": identifier, "@type": kind, **properties}


def _file(path: str, title: str, media_type: str) -> Entity:
    return _entity(path, "File", name=title, encodingFormat=media_type)


def _reference(identifier: str) -> Entity:
    return {"@id": identifier}


def _utc(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, tz=UTC).isoformat(timespec="seconds")
