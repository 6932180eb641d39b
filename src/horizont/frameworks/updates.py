"""Digests of pushed gradients and applied updates, recorded in the same way by every framework.

A server may not know the sender of a gradient, nor the weights on which it was computed (MXNet's
does not). So workers and servers record the digests of their arrays, and the launcher matches them
by content; it also detects a digest without a match.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.config.jobs import (
    APPLIED_FILE,
    GRADIENTS_FILE,
    PUSHED_FILE,
    SERVER_WEIGHTS_FILE,
    WorkerJob,
)
from horizont.frameworks.base import Weights
from horizont.records.files import write_arrays


def digest(values: NDArray[Any]) -> str:
    """Return sixteen hexadecimal digits that identify an array by its content."""
    content = np.ascontiguousarray(values).view(np.uint8).data
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def append_line(path: Path, line: dict[str, Any]) -> None:
    """Append a line and close the file: a server may be terminated at any time."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


class PushRecorder:
    """The gradients that a worker pushes.

    A `part` of the weights is updated at once by a server: a tensor, or a slice of the vector of
    all weights.
    """

    def __init__(self, job: WorkerJob) -> None:
        self.folder = job.folder
        self.is_first = job.rank == 0
        self.stores_gradients = job.run.record_updates == "gradients"
        self.gradients: Weights = {}
        self.steps: Counter[str] = Counter()

    def record(self, part: str, weights: NDArray[Any], gradient: NDArray[Any]) -> None:
        """Record a gradient before it is pushed, with the weights on which it was computed."""
        step = self.steps[part]
        self.steps[part] += 1
        line = {"part": part, "step": step, "on": digest(weights), "gradient": digest(gradient)}
        append_line(self.folder / PUSHED_FILE, line)
        if self.stores_gradients:
            self.gradients[f"{step}/{part}"] = gradient.copy()

    @property
    def needs_server_weights(self) -> bool:
        """Whether this worker writes the final weights of the servers."""
        return self.stores_gradients and self.is_first

    def write(self, server_weights: Weights) -> None:
        """Write the gradients and the final weights of the servers, if the run records them."""
        if self.stores_gradients:
            write_arrays(self.folder / GRADIENTS_FILE, self.gradients)
        if self.needs_server_weights:
            write_arrays(self.folder / SERVER_WEIGHTS_FILE, server_weights)


def push_recorder(job: WorkerJob) -> PushRecorder | None:
    """Return a recorder of a worker's gradients; None if the run does not record updates."""
    return None if job.run.record_updates == "none" else PushRecorder(job)


def record_applied(
    part: str, before: NDArray[Any], gradient: NDArray[Any], after: NDArray[Any]
) -> None:
    """Record an update of a server, in its working directory."""
    line = {"before": digest(before), "gradient": digest(gradient), "after": digest(after)}
    append_line(Path(APPLIED_FILE), {"part": part, **line})
