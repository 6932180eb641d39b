"""Comparison of models that were written elsewhere: what differs, and what repairs it.

>>> from horizont.modeldiff import diff
>>> report = diff("PREFIX:one.py:build", "PREFIX:other.py:build", "2x3x32x32")

A *side* is a model in its own interpreter. `recording` runs it, `pairing` pairs the layers,
`comparison` measures distances, `repairs` lists known differences, `search` finds causes.
"""

from horizont.modeldiff.compare_models import Options, diff
from horizont.modeldiff.report import Report

__all__ = ["Options", "Report", "diff"]
