"""The day of the PDF: that of the newest run, so that a clean clone builds the same file."""

from __future__ import annotations

from datetime import date
from types import SimpleNamespace

import pytest

from horizont.workflow import book
from horizont.workflow.paths import study_paths


@pytest.mark.parametrize(
    ("starts_s", "chosen", "day"),
    [
        ([1795824000.0, 1795737600.0], "", date(2026, 11, 28)),
        ([1795824000.0], "0", date(1970, 1, 1)),
        ([], "", None),
    ],
)
def test_the_day_is_that_of_the_newest_run_or_chosen(
    starts_s: list[float], chosen: str, day: date | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [SimpleNamespace(start_time_s=start_s) for start_s in starts_s]
    study = SimpleNamespace(records=records)
    monkeypatch.setattr(book, "open_reported_study", lambda paths: study)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", chosen)
    assert book._day_of_report(study_paths()) == day
