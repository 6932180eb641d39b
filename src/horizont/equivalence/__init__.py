"""Whether the frameworks train the same network: numbers, bounds, and a verdict."""

from horizont.equivalence.certificate import (
    EquivalenceCertificate,
    make_certificate,
    read_certificate,
    write_certificate,
)
from horizont.equivalence.compare import Comparison, TraceSet, compare
from horizont.equivalence.replay import ReplayedTensor, compare_replay

__all__ = [
    "Comparison",
    "EquivalenceCertificate",
    "ReplayedTensor",
    "TraceSet",
    "compare",
    "compare_replay",
    "make_certificate",
    "read_certificate",
    "write_certificate",
]
