"""The one place that imports MXNet, which was retired before NumPy dropped the names it uses."""

from __future__ import annotations

import mxnet as mx
import numpy as np

# MXNet 1.9.1 looks `numpy.bool` up; NumPy 1.24 removed it, and NumPy 2 has it again as this.
np.bool = np.bool_  # type: ignore[attr-defined]


__all__ = ["mx"]
