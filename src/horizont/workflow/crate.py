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
    files = [
        _file(name, title, media_type)
        for name, (title, media_type) in _FILES.items()
        if (paths.reports / name).exists()
    ]
    packs = [entity for name in packed_experiments(paths) for entity in _pack(name, paths)]
    parts = [entity for entity in (*files, *packs) if entity["@type"] in ("File", "Dataset")]
    actions = [entity for entity in packs if entity["@type"] == "CreateAction"]
    yield {
        "@id": paths.crate.name,
        "@type": "CreativeWork",
        "conformsTo": {"@id": _SPECIFICATION},
        "about": {"@id": "./"},
    }
    yield {
        "@id": "./",
        "@type": "Dataset",
        "name": "The report of Horizont",
        "description": package["Summary"],
        "datePublished": _utc(max(record.start_time_s for record in records))[:10],
        "license": {"@id": licence},
        "author": {"@id": _AUTHOR},
        "hasPart": _references(parts),
        "mentions": _references(actions),
    }
    yield {"@id": licence, "@type": "CreativeWork", "name": package["License-Expression"]}
    yield {"@id": _AUTHOR, "@type": "Organization", "name": "The Horizont maintainers"}
    yield {
        "@id": _SOFTWARE,
        "@type": "SoftwareApplication",
        "name": "Horizont",
        "softwareVersion": package["Version"],
    }
    yield from files
    yield from packs


def _pack(name: str, paths: Paths) -> Iterator[Entity]:
    """Yield the pack of an experiment, its files, and the action that made it."""
    pack = Pack(paths.pack(name))
    folder = f"{paths.pack(name).relative_to(paths.reports)}/"
    files = [
        _file(f"{folder}{file}", f"{file} of {name}", media_type)
        for file, media_type in _PACK_FILES.items()
    ]
    starts_s = [record.start_time_s for record in pack.records()]
    yield {
        "@id": folder,
        "@type": "Dataset",
        "name": f"Records of the experiment {name}",
        "description": f"{pack.manifest.runs} runs on {pack.manifest.machine or 'a machine'}",
        "hasPart": _references(files),
    }
    yield from files
    yield {
        "@id": f"#run-{name}",
        "@type": "CreateAction",
        "name": f"horizont run {name}",
        "startTime": _utc(min(starts_s)),
        "endTime": _utc(max(starts_s)),
        "agent": {"@id": _AUTHOR},
        "instrument": {"@id": _SOFTWARE},
        "result": {"@id": folder},
    }


def _file(path: str, title: str, media_type: str) -> Entity:
    return {"@id": path, "@type": "File", "name": title, "encodingFormat": media_type}


def _references(entities: Sequence[Entity]) -> list[Entity]:
    return [{"@id": entity["@id"]} for entity in entities]


def _utc(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, tz=UTC).isoformat(timespec="seconds")
