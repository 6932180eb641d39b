"""Comparison of two sets of records: regressions are found, reported, and optionally fail."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from claim_maker import WORKLOAD, make_runs

from horizont.analysis.changes import compare_machines, compare_quantities, unmatched_work
from horizont.cli import main
from horizont.config.topology import Link
from horizont.workflow.results import MAX_LINES

PT, MX = "pytorch/sync/allreduce", "mxnet/sync/parameter_server"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Write records before and after; after has PyTorch at half its speed, in another version."""
    before, after = tmp_path_factory.mktemp("before"), tmp_path_factory.mktemp("after")
    for folder, time_ms in ((before, 1.0), (after, 2.0)):
        make_runs(folder, PT, (time_ms,) * 4)
        make_runs(folder, MX, (1.0,) * 4)
    for path in after.rglob("environment.json"):
        facts = json.loads(path.read_text())
        facts["packages"]["torch"] = "2.14.0"
        path.write_text(json.dumps(facts))
    return before, after


def _both(folders: tuple[Path, Path]) -> list:
    from horizont.workflow.compare import read_folder

    return [read_folder(folder) for folder in folders]


def test_a_change_is_reported_with_its_interval(folders: tuple[Path, Path]) -> None:
    table = compare_quantities(*_both(folders)).set_index(["system", "quantity"])
    slower = table.loc[(PT, "examples_per_s")]
    assert slower["low"] <= 0.5 * 1.05
    assert slower["high"] >= 0.5 * 0.95
    assert (slower["change"], slower["n_before"], slower["level"]) == ("worse", 4, 0.875)
    assert table.loc[(PT, "backward_s"), "change"] == "worse"
    assert table.loc[(MX, "examples_per_s"), "change"] == "same"


def test_runs_that_only_their_links_distinguish_are_not_mixed(folders: tuple[Path, Path]) -> None:
    before, after = _both(folders)
    link = Link(rate_mbit=100.0)
    slow_links = [
        dataclasses.replace(
            record,
            run=record.run.model_copy(
                update={"topology": record.run.topology.model_copy(update={"link": link})}
            ),
        )
        for record in before
    ]
    points = compare_quantities([*before, *slow_links], after)["point"]
    assert set(points) == {"2 x 42, no limit"}
    unmatched, _ = unmatched_work([*before, *slow_links], after)
    assert {key.resources for key in unmatched} == {"100 Mbit/s"}


def test_machines_and_versions_are_compared(folders: tuple[Path, Path]) -> None:
    facts = compare_machines(*_both(folders)).set_index("fact")
    assert list(facts.loc["torch"]) == ["2.13.0", "2.14.0", True]
    assert not facts.loc["mxnet", "changed"]


def test_a_regression_fails_only_with_fail_above(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = map(str, folders)
    assert main(["compare", before, after]) == 0
    capsys.readouterr()
    assert main(["compare", before, after, "--fail-above", "1.1"]) == 1
    output = capsys.readouterr().out
    assert f"regression: distributed, {WORKLOAD}, {PT}" in output
    assert output.count("regression:") == 1
    assert main(["compare", after, before, "--fail-above", "1.1"]) == 0  # faster is no regression
    assert main(["compare", before, after, "--fail-above", "3"]) == 0


def test_the_result_its_cause_and_the_next_command_come_first_and_fit_a_screen(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = map(str, folders)
    assert main(["compare", before, after]) == 0
    first, second, *_, machines, following = capsys.readouterr().out.splitlines()
    assert first == "Of 2 throughputs, 1 dropped, 1 stayed the same within 10%."
    assert second.startswith(
        f"The largest change: distributed, {WORKLOAD}, {PT} is 2.00 times slower"
    )
    assert "most of it in backward" in second
    assert "torch (2.13.0 -> 2.14.0)" in machines
    assert following == "next: horizont experiment distributed, for the operators of each step"


def test_many_changes_are_cut_to_a_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, factor in (("before", 1.0), ("after", 1.5)):
        for number in range(6):
            make_runs(tmp_path / name / str(number), PT, (factor,) * 4, workers=2 + number)
    arguments = ["compare", str(tmp_path / "before"), str(tmp_path / "after")]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= MAX_LINES
    (cut,) = [line for line in lines if line.endswith("more rows: --all")]
    assert main([*arguments, "--all"]) == 0
    everything = capsys.readouterr().out
    assert "The machines" in everything
    hidden = int(cut.split()[1])
    assert everything.count("backward, ms") == 6
    assert len(everything.splitlines()) >= len(lines) + hidden


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "{before}", "/no/such"], "a folder that exists"),
        (["compare", "{empty}", "{before}"], "a folder with records"),
        (["compare", "{before}", "{after}", "--fail-above", "0.5"], "a factor of at least 1"),
        (["compare", "{before}", "{other}"], "records of the same work"),
    ],
)
def test_wrong_input_is_reported_in_one_line(
    folders: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "empty").mkdir()
    make_runs(tmp_path / "other", PT, (1.0,), workers=3)
    paths = {"before": folders[0], "after": folders[1]}
    paths |= {"empty": tmp_path / "empty", "other": tmp_path / "other"}
    assert main([argument.format(**paths) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
