"""The rows of an LSTM's weights, gate by gate."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def rearranged(value: NDArray[Any], given: str, wanted: str) -> NDArray[Any]:
    """Put the gates of a weight into another order.

    Parameters
    ----------
    value
        (gates * units, ...).
    given, wanted
        The letters of the gates, see :data:`horizont.networks.GATES`, in the order that the
        rows have and in the order that they shall have.
    """
    blocks = np.split(value, len(given))
    return np.concatenate([blocks[given.index(gate)] for gate in wanted])
