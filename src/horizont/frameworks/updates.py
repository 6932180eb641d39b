"""What workers and asynchronous servers note of each update, the same in every framework.

A server need not know whose gradient it applies, nor on which weights it was computed (MXNet's
does not). So both sides note the digest of what they hold, and the launcher finds who belongs to
whom by content; what fits nowhere is a mistake that it finds, too.
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


def digest(values: NDArray[Any]) -> str:
    """Tell numbers by sixteen hexadecimal digits."""
    content = np.ascontiguousarray(values).view(np.uint8).data
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def append_line(path: Path, line: dict[str, Any]) -> None:
    """Add a line that is on disk, whole, when this returns: a server may be ended at any time."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


class PushRecorder:
    """The gradients that a worker sends.

    A `part` of the weights is what a server changes at once: a tensor, or a slice of the vector
    of all weights.
    """

    def __init__(self, job: WorkerJob) -> None:
        self.folder = job.folder
        self.is_first = job.rank == 0
        self.keeps_gradients = job.run.record_updates == "gradients"
        self.gradients: Weights = {}
        self.steps: Counter[str] = Counter()

    def record(self, part: str, weights: NDArray[Any], gradient: NDArray[Any]) -> None:
        """Note a gradient that is about to be sent, and the weights that it was computed on."""
        step = self.steps[part]
        self.steps[part] += 1
        line = {"part": part, "step": step, "on": digest(weights), "gradient": digest(gradient)}
        append_line(self.folder / PUSHED_FILE, line)
        if self.keeps_gradients:
            self.gradients[f"{step}/{part}"] = gradient.copy()

    @property
    def needs_server_weights(self) -> bool:
        """Whether this worker is to leave the weights that the servers have in the end."""
        return self.keeps_gradients and self.is_first

    def write(self, server_weights: Weights) -> None:
        """Leave what was kept, and the servers' last weights."""
        if self.keeps_gradients:
            np.savez(self.folder / GRADIENTS_FILE, **self.gradients)
        if self.needs_server_weights:
            np.savez(self.folder / SERVER_WEIGHTS_FILE, **server_weights)


def push_recorder(job: WorkerJob) -> PushRecorder | None:
    """Start to note a worker's gradients, if the run is to be recorded."""
    return None if job.run.record_updates == "none" else PushRecorder(job)


def record_applied(
    part: str, before: NDArray[Any], gradient: NDArray[Any], after: NDArray[Any]
) -> None:
    """Note an update where a server works: its working directory is its own."""
    line = {"before": digest(before), "gradient": digest(gradient), "after": digest(after)}
    append_line(Path(APPLIED_FILE), {"part": part, **line})
