"""Whether the frameworks train the same network: numbers, bounds, and a verdict."""

from horizont.equivalence.compare import Comparison, Traces, compare
from horizont.equivalence.proof import Proof, proof_of, read_proof, write_proof
from horizont.equivalence.replay import ReplayedTensor, compare_replay

__all__ = [
    "Comparison",
    "Proof",
    "ReplayedTensor",
    "Traces",
    "compare",
    "compare_replay",
    "proof_of",
    "read_proof",
    "write_proof",
]
