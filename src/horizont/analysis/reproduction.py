"""A study beside the reference: which speeds are the same, and which verdicts would change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from horizont.analysis.changes import compare_quantities
from horizont.analysis.claims.judge import claim_verdicts
from horizont.analysis.runs import CertificateStatus, group_by, resources_label, trained
from horizont.analysis.verdicts import comparison_key, pairwise_verdicts
from horizont.errors import UserError
from horizont.records.record import Record
from horizont.wording import counted

#: The outcomes, in the order in which they are counted. ``other``: the interval neither lies within
#: 10% of the expected value nor excludes it.
OUTCOMES = ("same", "faster", "slower", "other")

_OUTCOME_OF_CHANGE = {"same": "same", "better": "faster", "worse": "slower"}

#: Fields of a run that decide its speed, except those of its topology that are only addresses.
_SETTINGS = {
    *("experiment", "workload_name", "workload", "system", "topology", "global_batch"),
    *("gradient_exchange", "input", "fault", "record_updates"),
}
_ADDRESSES = {"topology": {"addresses", "base_port"}}

#: Verdicts of a claim that decide nothing, so that a change of them is none of the outcome.
_UNDECIDED = frozenset({"not settled", "not testable"})


class Results(NamedTuple):
    """Records, and the certificate status of each workload."""

    records: Sequence[Record]
    certificates: Mapping[str, CertificateStatus]


def compare_with_reference(reference: Sequence[Record], own: Sequence[Record]) -> pd.DataFrame:
    """Compare throughput and phases of all runs whose settings the reference has, too.

    Numbers of steps, blocks and seeds may differ.

    One row per point and quantity: ``experiment, workload, system, point, quantity``; the medians
    ``expected`` of the reference and ``obtained``, each with ``_low`` and ``_high``; ``ratio`` of
    obtained to expected with ``low`` and ``high``; ``outcome``, one of `OUTCOMES`; ``records``, the
    names of those of the reference.
    """
    expected, obtained = (
        group_by(
            trained(records),
            lambda record: record.run.model_dump_json(include=_SETTINGS, exclude=_ADDRESSES),
        )
        for records in (reference, own)
    )
    tables = []
    for settings in [key for key in expected if key in obtained]:
        both = expected[settings], obtained[settings]
        names = ", ".join(record.folder.name for record in both[0])
        point = f"; {resources_label(both[0][0].run)}"
        table = compare_quantities(*both)
        tables.append(table.assign(records=names, point=table["point"] + point))
    if not tables:
        return pd.DataFrame(columns=["experiment", "outcome"])
    table = pd.concat(tables, ignore_index=True)
    renamed = {
        f"{old}{end}": f"{new}{end}"
        for old, new in (("before", "expected"), ("after", "obtained"))
        for end in ("", "_low", "_high")
    }
    outcomes = table.pop("change").map(_OUTCOME_OF_CHANGE).fillna("other")
    return table.rename(columns=renamed).assign(outcome=outcomes)


def changed_verdicts(reference: Results, own: Results) -> pd.DataFrame:
    """List the verdicts on pairs of systems and on claims that differ from the reference.

    Of the pairs that both compared under equal conditions, and of the claims that the own records
    decide. One row each: ``subject``, ``expected`` and ``obtained``.
    """
    rows = [*_changed_pairs(reference, own), *_changed_claims(reference, own)]
    return pd.DataFrame(rows, columns=["subject", "expected", "obtained"])


def _changed_pairs(reference: Results, own: Results) -> Iterator[tuple[str, str, str]]:
    expected, obtained = _pair_outcomes(reference), _pair_outcomes(own)
    for (key, a, b), outcome in expected.items():
        if (other := obtained.get((key, a, b), outcome)) != outcome:
            winners = {"A faster": f"{a} faster", "B faster": f"{b} faster"}
            subject = f"{key[0]}, {key[1]}, {counted(key[2], 'worker')}: {a} and {b}"
            yield subject, winners.get(outcome, outcome), winners.get(other, other)


_PairKey = tuple[tuple[str, str, int, str, int], str, str]


def _pair_outcomes(results: Results) -> dict[_PairKey, str]:
    """Return the verdict on each pair of systems by its conditions."""
    unfaulted = [record for record in results.records if record.run.fault is None]
    outcomes: dict[_PairKey, str] = {}
    for key, records in group_by(unfaulted, comparison_key).items():
        status = results.certificates.get(records[0].run.workload_name, {})
        try:
            table = pairwise_verdicts(records, status)
        except UserError:  # a sweep over something else than the systems has no pairs
            continue
        for row in table.to_dict("records"):
            outcomes[key, row["a"], row["b"]] = str(row["outcome"])
    return outcomes


def _changed_claims(reference: Results, own: Results) -> list[tuple[str, str, str]]:
    expected = {claim["id"]: claim["verdict"] for claim in claim_verdicts(*reference)}
    return [
        (f"claim {claim['id']}", expected[claim["id"]], claim["verdict"])
        for claim in claim_verdicts(*own)
        if claim["verdict"] not in _UNDECIDED and claim["verdict"] != expected[claim["id"]]
    ]
