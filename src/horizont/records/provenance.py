"""The name of a run: equal for equal work on equal ground, and for nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from horizont.config.run import Run


def code_fingerprint(folders: Iterable[Path]) -> str:
    """Hash the Python sources below some folders (or single files), names included.

    Returns
    -------
    str
        Sixteen hexadecimal digits of a SHA-256.
    """
    digest = hashlib.sha256()
    for folder in folders:
        files = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
        for file in files:
            digest.update(str(file.relative_to(folder.parent)).encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def run_key(run: Run, provenance: Mapping[str, str]) -> str:
    """Name a run by its work and its ground.

    Parameters
    ----------
    run
        What is to be done.
    ground
        What else decides the outcome: versions, machine, code, data, by name.
    """
    text = json.dumps(
        {"run": run.model_dump(mode="json"), "provenance": dict(provenance)}, sort_keys=True
    )
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return f"{run.system.slug}-w{run.topology.workers}-b{run.block:02d}-{digest}"
