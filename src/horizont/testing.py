"""Assertions for tests of models: `assert_same_training`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from horizont.modeldiff import Options, Report, diff
from horizont.modeldiff.recording import Array


def assert_same_training(
    a: str,
    b: str,
    batch: str | Array = "",
    *,
    accept: Collection[str] = (),
    options: Options | None = None,
) -> Report:
    """Assert that two models train the same, within bounds that follow from their rounding.

    Parameters
    ----------
    a, b, batch
        As for `horizont.modeldiff.diff`.
    accept
        Names of differences that do not count.

    Raises
    ------
    AssertionError
        With the report, if they differ or if there is no verdict.
    """
    options = options or Options()
    report = diff(a, b, batch, replace(options, accept=(*options.accept, *accept)))
    if report.status:
        raise AssertionError(f"\n{report}")
    return report
