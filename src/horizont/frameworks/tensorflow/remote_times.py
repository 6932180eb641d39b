"""What a worker that is led by a coordinator reports of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horizont.frameworks.base import RemoteStep

#: What an instrumented step does one after the other.
STAGES = ("load", "communication", "forward", "backward", "communication")


def fetched(variable: Any) -> Any:
    """Bring a variable from its server to where this is built."""
    return tf.identity(variable.read_value())


def report(rank: Any, loss: Any, times: Sequence[Any]) -> Any:
    """Pack what a worker tells of a step into one small tensor, float64."""
    return tf.stack([tf.cast(value, tf.float64) for value in (rank, loss, *times)])


def remote_steps(reports: Sequence[Any]) -> list[RemoteStep]:
    """Lay out the reports of a segment as rows, in the order in which the steps began.

    A worker's step begins with the end of its step before, as in a worker that has its own
    loop: what passes until the coordinator's next word has come is a part of the step, outside
    its phases. The first step of the segment begins when the worker begins it.

    Parameters
    ----------
    reports
        Each is rank, loss, and two times or one more than there are stages, in seconds.
    """
    rows = []
    free_s: dict[int, float] = {}
    for rank, loss, *times in sorted(reports, key=lambda report: float(report[2])):
        worker = int(rank)
        rows.append(
            RemoteStep(
                worker=worker,
                start_unix_s=free_s.get(worker, float(times[0])),
                end_unix_s=float(times[-1]),
                phases_s=_phases(times) if len(times) > 2 else {},
                loss=float(loss),
            )
        )
        free_s[worker] = float(times[-1])
    return rows


def _phases(times: Sequence[float]) -> dict[str, float]:
    """Sum the stages by phase."""
    phases: dict[str, float] = {}
    for stage, begun, ended in zip(STAGES, times[:-1], times[1:], strict=True):
        phases[stage] = phases.get(stage, 0.0) + float(ended - begun)
    return phases
