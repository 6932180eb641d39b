"""The bounds of the comparator, and where they come from.

In float64 the frameworks do the same sums in another order, so they must agree to a small
multiple of the rounding unit. A tensor passes through at most a few thousand additions for
each of its elements and layer; errors of random sign grow with the root of their number, and
training carries them from step to step. ``FLOAT64_BOUND`` leaves three orders of magnitude
above what was found for the first gradients of the networks of the study (1e-15 to 1e-13) and
lies far below what any real mistake causes (a learning rate off by one per cent gives 1e-2).

Deep networks with batch norm make rounding grow from step to step, in the end until nothing is
left to compare. There the bound follows the noise of the framework itself, as described below.
A number whose bound is above ``TELLING`` could hide a mistake and is no evidence; the comparator
counts such numbers apart, and asks for others.

In float32 no fixed bound can be honest: how fast rounding grows depends on the network. The
bound is derived from what the frameworks show of themselves, per tensor and step:

- its *noise*, the distance between trainings that differ in nothing but rounding: the examples
  of each batch come in reverse, the initial weights are one unit in the last place larger, or
  two threads compute in the place of one. A unit that stands at the kink of its activation, or
  two that tie in a pooling, fall to either side by rounding alone and change a gradient by as
  much as one example's part; a few reruns catch that in some frameworks and not in others.
  So the noise of all frameworks counts for each pair;
- its *error*, the distance to its own training in float64. A library may compute an exponential
  or a batch norm less exactly than its neighbour, the same way at every call, and no rerun would
  show it. As the error may also hide a mistake that exists in float32 only, it counts up to
  ``ERROR_CAP``: fifty times below a learning rate off by one per cent after the factor.

Two frameworks may differ by ``NOISE_FACTOR`` times the largest of these, and never need to be
closer than ``FLOOR_ULPS`` rounding units: a reversed batch leaves some tensors (the logits of an
example) untouched, where two libraries still may not agree.
"""

from __future__ import annotations

import numpy as np

FLOAT64_BOUND = 1e-11
NOISE_FACTOR = 10.0
ERROR_CAP = 2e-5
FLOOR_ULPS = 64.0
TELLING = 1e-3


def float64_bound(noise: list[float]) -> float:
    """Bound the distance of two frameworks in float64 by the noise of each."""
    return max(FLOAT64_BOUND, NOISE_FACTOR * max(noise, default=0.0))


def float32_bound(noise: list[float], error: list[float]) -> float:
    """Bound the distance of two frameworks, all relative.

    Parameters
    ----------
    noise
        Of all frameworks.
    error
        Of the two.
    """
    floor = FLOOR_ULPS * float(np.finfo(np.float32).eps)
    counted = [*noise, *(min(value, ERROR_CAP) for value in error)]
    return max(floor, NOISE_FACTOR * max(counted, default=0.0))
