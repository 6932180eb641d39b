"""Published claims, the rules that decide them, and what the records say to them."""

from horizont.analysis.claims.findings import VERDICTS
from horizont.analysis.claims.judge import REFERENCE, claim_verdicts, published_vs_measured
from horizont.analysis.claims.rules import published_times, read_claims, read_rules, read_sources

__all__ = [
    "REFERENCE",
    "VERDICTS",
    "claim_verdicts",
    "published_times",
    "read_claims",
    "read_rules",
    "read_sources",
    "published_vs_measured",
]
