"""The answer: winners, leads and verdicts by hand, empty cells, the cause, and its forms."""

from __future__ import annotations

import dataclasses
import re
from math import exp, log
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy
from bs4 import BeautifulSoup
from record_maker import make_records
from tests.analysis.test_faults_table import process, record, report

from horizont.analysis.answer import (
    COLUMNS,
    LOSS,
    MEMORY,
    ONE,
    SEVERAL,
    SURVIVES,
    Answer,
    Cell,
    answers,
)
from horizont.analysis.learning import losses, smoothed
from horizont.config.input import InputPipeline
from horizont.config.system import parse_system
from horizont.records.record import Record, read_record
from horizont.reporting.answer import (
    answer_cells,
    answer_table,
    cause_sentence,
    headline,
    legend,
)
from horizont.reporting.figures.answer import answer_figure
from horizont.reporting.tables import format_ms
from horizont.workflow.paths import Paths
from horizont.workflow.results import show_summary

WORKLOAD = "lenet5-cifar10"
VERIFIED = {WORKLOAD: "verified"}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    folder = tmp_path_factory.mktemp("store")
    return make_records(folder / "several") + make_records(folder / "one", "local")


@pytest.fixture(scope="module")
def answer(records: list[Record]) -> Answer:
    (answer,) = answers(records, VERIFIED)
    return answer


def rates_by_hand(records: list[Record], system: str) -> list[float]:
    """Compute examples per second of each block from the steps of one worker."""
    rates = []
    for run in sorted(
        (r for r in records if r.run.system.name == system), key=lambda r: r.run.block
    ):
        steps = run.steps().to_pandas().query("kind == 'timed' and worker == 0")
        rates.append(steps["examples"].sum() / steps["step_s"].sum())
    return rates


def test_a_lead_is_the_paired_ratio_with_its_95_percent_interval(
    records: list[Record], answer: Answer
) -> None:
    cell = answer.cells[ONE]
    assert (cell.winner, cell.runner_up) == ("pytorch/local", "tensorflow/local")
    fast, slow = (rates_by_hand(records, name) for name in (cell.winner, cell.runner_up))
    logs = np.log(np.array(fast) / np.array(slow))
    half = scipy.stats.t.ppf(0.975, 2) * logs.std(ddof=1) / np.sqrt(3)
    assert cell.ratio == pytest.approx(exp(logs.mean()), rel=1e-6)
    assert log(cell.low) == pytest.approx(logs.mean() - half, rel=1e-6)
    assert log(cell.high) == pytest.approx(logs.mean() + half, rel=1e-6)
    assert cell.verdict == "clear"


def test_of_time_and_memory_less_is_better(records: list[Record], answer: Answer) -> None:
    several = [record for record in records if not record.run.system.is_local]
    curves = smoothed(losses(several))
    target = curves.groupby(["system", "block"])["smoothed_loss"].min().max()
    reached = curves[curves["smoothed_loss"] <= target]
    times_s = reached.groupby(["system", "block"])["time_s"].min()
    medians_s = times_s.groupby("system").median().sort_values()
    cell = answer.cells[LOSS]
    assert [cell.winner, cell.runner_up] == list(medians_s.index[:2])
    logs = np.log(times_s[cell.runner_up] / times_s[cell.winner])
    assert cell.ratio == pytest.approx(exp(logs.mean()), rel=1e-6)
    # Every worker and server of these records ends with the same memory, and so has every system
    # with as many processes: all-reduce has the fewest.
    assert answer.cells[MEMORY].winner.endswith("allreduce")
    assert (answer.cells[MEMORY].ratio, answer.cells[MEMORY].verdict) == (1, "equal")


def test_the_winner_is_ahead_inside_the_blocks(answer: Answer) -> None:
    compared = [cell for cell in answer.cells.values() if cell.verdict]
    assert len(compared) == 4
    assert all(cell.ratio >= 1 and cell.low <= cell.ratio <= cell.high for cell in compared)


def test_one_system_and_no_runs_are_named(records: list[Record]) -> None:
    (alone,) = answers([r for r in records if r.run.system.name == "mxnet/local"], VERIFIED)
    assert (alone.cells[ONE].winner, alone.cells[ONE].note) == ("mxnet/local", "one system")
    assert {alone.cells[name].note for name in (SEVERAL, SURVIVES)} == {"not run"}
    assert alone.cells[ONE].verdict is None
    assert answers([], VERIFIED) == []


def test_unverified_systems_do_not_win(records: list[Record]) -> None:
    others = dict.fromkeys(("tensorflow", "mxnet"), "verified")
    (answer,) = answers(records, {WORKLOAD: others})
    assert (answer.cells[ONE].winner, answer.cells[ONE].verdict) == ("tensorflow/local", "clear")
    (unverified,) = answers(records, {})
    assert unverified.cells[ONE].verdict == "not comparable"
    assert unverified.cause is None


def test_emulated_hosts_precede_the_processes_of_this_machine(records: list[Record]) -> None:
    slow = ("tensorflow/sync/allreduce", "mxnet/sync/parameter_server")
    emulated = [
        dataclasses.replace(r, environment={**r.environment, "capabilities": ["byte_counters"]})
        if r.run.system.name in slow
        else r
        for r in records
    ]
    (answer,) = answers(emulated, VERIFIED)
    cell = answer.cells[SEVERAL]
    assert (cell.winner, cell.runner_up) == slow


def test_one_process_with_whole_cpus_precedes_one_with_a_quota(records: list[Record]) -> None:
    """Experiments on emulated hosts have baselines with the quota of a host."""
    whole = [run for run in records if run.run.system.is_local]
    quotas = []
    for one in whole:
        topology = one.run.topology.model_copy(update={"cpus_per_host": 0.5})
        run = one.run.model_copy(update={"experiment": "cluster", "topology": topology})
        folder = one.folder.with_name(f"{one.folder.name}-quota")
        quotas.append(dataclasses.replace(one, run=run, folder=folder))
    (expected,) = answers(whole, VERIFIED)
    (answer,) = answers([*whole, *quotas, quotas[0]], VERIFIED)
    assert answer.cells[ONE] == expected.cells[ONE]


def in_another_experiment(records: list[Record], **settings: object) -> list[Record]:
    """Return the runs as those of an experiment `repeated`, with other settings."""
    changes = {"experiment": "repeated", **settings}
    return [
        dataclasses.replace(record, run=record.run.model_copy(update=changes)) for record in records
    ]


def test_more_blocks_of_the_two_fastest_decide_their_lead(
    records: list[Record], tmp_path: Path
) -> None:
    one = [record for record in records if record.run.system.is_local]
    (before,) = answers(one, VERIFIED)
    pair = {before.cells[ONE].winner, before.cells[ONE].runner_up}
    more = make_records(tmp_path, "local", blocks=5)
    two = [record for record in more if record.run.system.name in pair]
    (answer,) = answers([*one, *in_another_experiment(two)], VERIFIED)
    fast, slow = (rates_by_hand(two, name) for name in ("pytorch/local", "tensorflow/local"))
    logs = np.log(np.array(fast) / np.array(slow))
    half = scipy.stats.t.ppf(0.975, 4) * logs.std(ddof=1) / np.sqrt(5)
    assert log(answer.cells[ONE].ratio) == pytest.approx(logs.mean(), rel=1e-6)
    assert log(answer.cells[ONE].high) == pytest.approx(logs.mean() + half, rel=1e-6)
    assert answer.cause is not None
    assert answer.cause.pair.records_a[0].run.experiment == "repeated"
    # The memory of that experiment's runs decides nothing.
    assert answer.cells[MEMORY] == before.cells[MEMORY]


def as_systems(records: list[Record], names: dict[str, str]) -> list[Record]:
    """Return the runs of some systems as those of others."""
    return [
        dataclasses.replace(
            record, run=record.run.model_copy(update={"system": parse_system(names[old])})
        )
        for record in records
        if (old := record.run.system.name) in names
    ]


def test_the_experiment_with_more_blocks_ranks_its_own_systems(
    records: list[Record], tmp_path: Path
) -> None:
    one = [record for record in records if record.run.system.is_local]
    one += as_systems(one, {"mxnet/local": "jax/local"})
    (before,) = answers(one, VERIFIED)
    cell = before.cells[ONE]
    assert (cell.winner, cell.runner_up) == ("pytorch/local", "tensorflow/local")
    swapped = {
        "pytorch/local": "pytorch/local",
        "mxnet/local": "tensorflow/local",
        "tensorflow/local": "mxnet/local",
    }
    repeated = as_systems(make_records(tmp_path, "local", blocks=5), swapped)
    (answer,) = answers([*one, *in_another_experiment(repeated)], VERIFIED)
    cell = answer.cells[ONE]
    assert (cell.winner, cell.runner_up) == ("pytorch/local", "mxnet/local")


@pytest.mark.parametrize(
    "changes",
    [{"record_updates": "order"}, {"global_batch": 84}, {"input": InputPipeline(source="files")}],
    ids=str,
)
def test_blocks_with_other_settings_do_not_decide(
    records: list[Record], tmp_path: Path, changes: dict[str, object]
) -> None:
    one = [record for record in records if record.run.system.is_local]
    (before,) = answers(one, VERIFIED)
    more = make_records(tmp_path, "local", blocks=5)
    pair = {before.cells[ONE].winner, before.cells[ONE].runner_up}
    two = [record for record in more if record.run.system.name in pair]
    (answer,) = answers([*one, *in_another_experiment(two, **changes)], VERIFIED)
    assert answer.cells[ONE] == before.cells[ONE]


def test_fewer_blocks_of_another_experiment_do_not_decide(records: list[Record]) -> None:
    one = [record for record in records if record.run.system.is_local]
    (before,) = answers(one, VERIFIED)
    fewer = in_another_experiment([record for record in one if record.run.block < 2])
    (answer,) = answers([*one, *fewer], VERIFIED)
    assert answer.cells[ONE] == before.cells[ONE]


def test_survivors_complete_after_the_loss_of_a_worker(tmp_path: Path) -> None:
    fault = {"kind": "kill", "target": "worker", "rank": 1}
    worker = process("worker-0", "completed", 7)
    runs = [
        record(tmp_path / "a", "mxnet/async/parameter_server", fault,
               report("worker-1", "completed", worker)),
        record(tmp_path / "b", "pytorch/sync/allreduce", fault,
               report("worker-1", "all_exited", process("worker-0", "failed", 3))),
    ]  # fmt: skip
    (answer,) = answers(runs, {})
    cell = answer.cells[SURVIVES]
    assert (cell.survivors, cell.tested) == (("mxnet/async/parameter_server",), 2)


def test_the_cause_is_that_of_several_workers(answer: Answer) -> None:
    assert answer.cause is not None
    cell = answer.cells[SEVERAL]
    assert {answer.cause.pair.a, answer.cause.pair.b} == {cell.winner, cell.runner_up}
    sentence = cause_sentence(answer)
    assert sentence.startswith("With several workers, a step of TensorFlow takes ")
    assert re.search(r"[\d.]+ ms \([\d.]+ to [\d.]+ ms\) longer than of PyTorch;", sentence)
    cells = {SEVERAL: dataclasses.replace(cell, verdict="equal")}
    no_lead = dataclasses.replace(answer, cells=cells, cause=None)
    assert "none to explain" in cause_sentence(no_lead)


def test_a_known_cause_of_one_process_precedes_an_unknown_one(tmp_path: Path) -> None:
    several = make_records(tmp_path / "several")
    for run in several:  # without instrumented steps, there is no cause
        file = run.folder / "steps.parquet"
        steps = pd.read_parquet(file)
        steps[steps["kind"] == "timed"].to_parquet(file)
    several = [read_record(run.folder) for run in several]
    (answer,) = answers(several, VERIFIED)
    assert "why is unknown" in cause_sentence(answer)
    (answer,) = answers([*several, *make_records(tmp_path / "one", "local")], VERIFIED)
    assert answer.cells[SEVERAL].verdict == answer.cells[ONE].verdict == "clear"
    assert cause_sentence(answer).startswith("As one process, ")


def test_workers_of_sweeps_are_named_where_there_are_no_others(records: list[Record]) -> None:
    one = [run for run in records if run.run.system.is_local]
    (answer,) = answers(one, VERIFIED, swept={WORKLOAD})
    assert answer.cells[SEVERAL].note == "in sweeps only"
    (answer,) = answers(records, VERIFIED, swept={WORKLOAD})
    assert answer.cells[SEVERAL].verdict


def test_a_cause_larger_than_the_difference_gains_elsewhere(answer: Answer) -> None:
    cause = answer.cause
    assert cause is not None
    assert cause.step is not None
    *path, last = cause.path
    larger = dataclasses.replace(last, difference_s=1.26 * cause.step.difference_s)
    answer = dataclasses.replace(answer, cause=dataclasses.replace(cause, path=(*path, larger)))
    sentence = cause_sentence(answer)
    shown = format_ms(1.26 * abs(cause.step.difference_s))
    assert re.search(rf"; an instrumented one [\d.]+ ms, and in .* alone {shown}\.$", sentence)


def test_the_table_has_a_cell_by_column_with_its_verdict_in_words(answer: Answer) -> None:
    page = BeautifulSoup(answer_table([answer]).html(), "html.parser")
    cells = {cell["data-column"]: cell.get_text(" ") for cell in page.select("td[data-column]")}
    assert list(cells) == list(COLUMNS)
    one = answer.cells[ONE]
    assert cells[ONE] == (
        f"PyTorch {one.ratio:.2f} ({one.low:.2f} to {one.high:.2f}) next: TensorFlow ● clear"
    )
    assert cells[SURVIVES] == "not run"
    assert cause_sentence(answer) in page.get_text()


def test_the_headline_counts_clear_leads(answer: Answer) -> None:
    one, several = answer.cells[ONE], answer.cells[SEVERAL]
    equal = dataclasses.replace(one, verdict="equal")
    two = [answer, dataclasses.replace(answer, cells={**answer.cells, ONE: equal})]
    assert (one.verdict, several.verdict) == ("clear", "clear")
    assert headline(two).text == (
        "As one process, PyTorch is clearly the fastest on 1 of 2 workloads; with several "
        "workers, PyTorch all‑reduce is clearly the fastest on 2 of 2 workloads."
    )
    alone = {**answer.cells, ONE: equal, SEVERAL: Cell()}
    assert headline([dataclasses.replace(answer, cells=alone)]).text == (
        "As one process, no system is clearly the fastest on any workload."
    )
    assert headline([]).text == "No systems compete."


def test_the_terminal_has_a_line_for_each_workload(answer: Answer) -> None:
    cells = answer_cells([answer]).iloc[0]
    assert cells[ONE] == f"● {answer.cells[ONE].ratio:.2f} PyTorch"
    assert cells[SEVERAL].endswith(" PyTorch AR")
    assert cells["survives"] == "not run"
    assert legend([answer]) == "● clear, = equal within 10%"


def test_the_figure_has_the_leads_of_the_table(answer: Answer, tmp_path: Path) -> None:
    drawing = answer_figure([answer])
    drawing.save(tmp_path / "answer.svg")
    svg = (tmp_path / "answer.svg").read_text()
    for setting in (ONE, SEVERAL):
        assert setting in svg
    leads = drawing.data.set_index("setting")
    for setting in (ONE, SEVERAL):
        cell = answer.cells[setting]
        assert tuple(leads.loc[setting, ["system", "ratio"]]) == (cell.winner, cell.ratio)
    alone = dataclasses.replace(answer, cells=answer.cells | {ONE: Cell(), SEVERAL: Cell()})
    assert "no two systems were compared" in str(answer_figure([alone])._repr_mimebundle_())


def test_the_summary_fits_a_screen_and_ends_with_the_next_command(
    study_folder: Paths,
    records: list[Record],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert show_summary(study_folder) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "next: horizont repro"
    (answer,) = answers(records, VERIFIED)
    many = [answer] * 12
    monkeypatch.setattr("horizont.workflow.reported.answers", lambda *_: many)
    assert show_summary(study_folder) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 25
    assert all(len(line) <= 120 for line in lines)
    assert sum(line.startswith(f"{WORKLOAD}: With several workers") for line in lines) >= 8
