"""What `horizont verify` prints: the verdict, who differs, and the next command."""

from __future__ import annotations

import pytest
from tests.equivalence.test_compare import certificate_of_three, trace

from horizont.equivalence.certificate import EquivalenceCertificate
from horizont.workflow.outcome import show_certificate
from horizont.workflow.paths import Paths
from horizont.workflow.results import MAX_LINES

WORKLOAD = "lenet5-cifar10"


def certificate(shift: float = 0.0) -> EquivalenceCertificate:
    """Compare three frameworks, of which the last has another gradient."""
    values = {"gradient__0__conv1.weight": trace()["gradient/0/conv1.weight"] + shift}
    made = certificate_of_three(trace(**values))
    return made.model_copy(update={"workload": WORKLOAD, "missing": {"mxnet": "not installed"}})


@pytest.mark.parametrize(
    ("shift", "is_mutated", "named", "following"),
    [
        (0.0, False, "Equivalent: ", "next: horizont run local lenet5-cifar10, which has"),
        (0.1, False, "c differs from all others, which agree", "next: horizont notebook equiv"),
        (0.1, True, "c differs from all others, which agree", "next: horizont verify lenet5-cif"),
    ],
)
def test_verify_ends_with_what_follows(
    study_folder: Paths,
    capsys: pytest.CaptureFixture[str],
    shift: float,
    is_mutated: bool,
    named: str,
    following: str,
) -> None:
    show_certificate(certificate(shift), study_folder, is_mutated=is_mutated)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= MAX_LINES
    assert lines[0].startswith("Equivalent: " if not shift else "Not equivalent: ")
    assert any(line.startswith(named) for line in lines)
    assert "MXNet was not compared: not installed" in lines
    assert lines[-1].startswith(following)
