"""Published claims, the rules that decide them, and what the records say to them."""

from horizont.analysis.claims.decide import VERDICTS
from horizont.analysis.claims.judge import judge
from horizont.analysis.claims.published import published_times, read_claims, read_sources
from horizont.analysis.claims.rules import read_rules
from horizont.analysis.claims.thennow import REFERENCE, then_and_now

__all__ = [
    "REFERENCE",
    "VERDICTS",
    "judge",
    "published_times",
    "read_claims",
    "read_rules",
    "read_sources",
    "then_and_now",
]
