"""How long synchronous workers waited for the slowest, by the clock that they all share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def part_waiting(steps: pa.Table) -> pa.Table:
    """Move from the communication of each step to its waiting what passed for want of others.

    No exchange ends before the last worker has its gradients. Until then a worker *waits*,
    whatever of its own may be on the way already; what remains is the transfer. A barrier would
    tell the two apart as well, but it would keep each transfer from beginning before the slowest
    worker is ready, which a bare step does not.

    Parameters
    ----------
    steps
        Of all workers, as of `horizont.measure.StepLog`; those of one number belong together.

    Returns
    -------
    pyarrow.Table
        The same, with ``waiting_s`` where there is a ``communication_s``, which is the less by
        so much.
    """
    number, ready_s = steps["step"].to_numpy(), steps["ready_s"].to_numpy()
    exchange_s = steps["communication_s"].to_numpy()
    last_s = np.full(number.max(initial=-1) + 1, -np.inf)
    np.fmax.at(last_s, number, ready_s)
    # A step of local SGD that exchanges nothing waits for nobody.
    waiting_s = np.clip(last_s[number] - ready_s, 0.0, exchange_s)
    return _with(steps, waiting_s=waiting_s, communication_s=exchange_s - waiting_s)


def _with(steps: pa.Table, **columns: NDArray[np.float64]) -> pa.Table:
    for name, values in columns.items():
        steps = steps.set_column(steps.column_names.index(name), name, pa.array(values))
    return steps
