"""Whether the frameworks train the same network: numbers, bounds, and a verdict."""

from horizont.equivalence.compare import Comparison, Traces, compare
from horizont.equivalence.proof import Proof, proof_of, read_proof, write_proof

__all__ = ["Comparison", "Proof", "Traces", "compare", "proof_of", "read_proof", "write_proof"]
