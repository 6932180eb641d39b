"""Pairwise verdicts and drill-down: parts add up at every level, and the cause is found."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from record_maker import make_records

from horizont.analysis import drilldown, steps, verdicts
from horizont.analysis.steps import comparable_phase_groups
from horizont.config.system import SYSTEMS
from horizont.errors import UserError

pytestmark = pytest.mark.filterwarnings("error")

FAILED = "mxnet/async/parameter_server"
OUTCOMES = {"A faster", "B faster", "equal", "not settled"}
COLUMNS = ["system", "operator_class", "operator", "phase", "self_s"]


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return make_records(tmp_path_factory.mktemp("store"), failed=(FAILED,))


@pytest.fixture(scope="module")
def local_records(tmp_path_factory):
    return make_records(tmp_path_factory.mktemp("store"), "local")


def profiles(phases=True, slow_s=0.004):
    """Build the operators of two frameworks, with slow pooling in MXNet."""
    torch = [
        ("convolution", "aten::convolution_backward", "backward", 0.0030),
        ("pooling", "aten::max_pool2d_with_indices_backward", "backward", 0.0010),
        ("convolution", "aten::convolution", "forward", 0.0020),
    ]
    mxnet = [
        ("convolution", "_backward_Convolution", "backward", 0.0031),
        ("pooling", "_backward_Pooling", "backward", 0.0010 + slow_s),
        ("convolution", "Convolution", "forward", 0.0030),
    ]
    rows = [("pytorch/local", *row) for row in torch] + [("mxnet/local", *row) for row in mxnet]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame if phases else frame.assign(phase=None)


def test_every_pair_is_a_row_with_a_verdict(records):
    table = verdicts.pairwise_verdicts(records, "verified")
    assert len(table) == 10
    assert set(table["outcome"]) <= OUTCOMES
    row = table.set_index(["a", "b"]).loc[("pytorch/sync/allreduce", "mxnet/sync/parameter_server")]
    assert row["outcome"] == "A faster"
    assert row["blocks"] == row["planned"] == 3
    assert set(row["records"]) <= {record.folder.name for record in records}
    assert len(row["records"]) == 6


def test_a_system_that_failed_is_a_row_with_its_reason(records):
    table = verdicts.pairwise_verdicts(records, "verified")
    failed = table[(table["a"] == FAILED) | (table["b"] == FAILED)]
    assert len(failed) == 4
    assert set(failed["outcome"]) == {"not settled"}
    assert failed["reason"].str.contains("address already in use").all()
    assert (failed["blocks"] == 0).all()


def test_without_a_certificate_there_is_no_verdict(records):
    table = verdicts.pairwise_verdicts(records, {"mxnet": "verified"})
    verified = table["a"].str.startswith("mxnet") & table["b"].str.startswith("mxnet")
    assert set(table.loc[~verified, "outcome"]) == {"not comparable"}
    assert set(table.loc[verified, "outcome"]) == {"not settled"}
    assert table.loc[~verified, "reason"].str.contains("no equivalence certificate").all()


def test_a_single_process_is_not_compared_with_several_workers(tmp_path, records, local_records):
    both = [*records, *(make_records(tmp_path, "local", blocks=1))]
    pytorch = [record for record in both if record.run.system.framework == "pytorch"]
    assert verdicts.pairs(pytorch) == []
    assert len(verdicts.pairs(local_records)) == 3


def test_a_sweep_of_servers_is_rejected(local_records):
    with pytest.raises(UserError, match="one number and placement of servers"):
        verdicts.pairs([*local_records, local_records[0]])


def test_no_records_give_empty_tables():
    assert verdicts.pairwise_verdicts([]).empty
    assert drilldown.drilldowns([]) == []


def assert_adds_up(drill):
    """Check that the parts at each level add up to their parent."""
    table = drill.table()
    for (level, parent), rows in table[table["parent"] != ""].groupby(["level", "parent"]):
        whole = table.loc[table["part"] == parent].iloc[0]
        for column in ("difference_s", "fraction"):
            assert rows[column].sum() == pytest.approx(whole[column], abs=1e-12), (level, parent)
    assert table.iloc[0]["fraction"] == 1.0


@pytest.mark.parametrize("operators", [None, profiles(), profiles(phases=False)])
def test_the_parts_add_up_at_every_level(records, local_records, operators):
    for drill in drilldown.drilldowns(local_records, operators):
        assert_adds_up(drill)
    for drill in drilldown.drilldowns(records):
        if FAILED in (drill.pair.a, drill.pair.b):
            assert drill.parts == []
        else:
            assert_adds_up(drill)
            step = drill.step
            assert step.difference_s == pytest.approx(step.b_s - step.a_s)


def torch_and_mxnet(records, operators, slow_s=0.0, phase="backward"):
    """Compare two systems, with MXNet slowed in one phase."""
    phases = steps.means_by_run(records)
    mxnet = [name for name in phases.index if "mxnet" in name]
    phases.loc[mxnet, [phase, "timed_s"]] += slow_s
    (pair,) = [p for p in verdicts.pairs(records) if (p.a, p.b) == ("pytorch/local", "mxnet/local")]
    return drilldown.drill_down(pair, phases, operators)


def test_a_slow_operator_is_found(local_records):
    drill = torch_and_mxnet(local_records, profiles(slow_s=0.02), slow_s=0.02)
    assert [part.part for part in drill.path] == [
        "local", "backward", "pooling", "_backward_Pooling",
    ]  # fmt: skip
    assert drill.stop_reason == ""
    without_phases = torch_and_mxnet(
        local_records, profiles(phases=False, slow_s=0.02), slow_s=0.02
    )
    assert without_phases.path[-1].part == "_backward_Pooling"


def test_without_a_profile_the_search_stops_at_a_phase(local_records):
    drill = torch_and_mxnet(local_records, None, slow_s=0.02)
    assert [part.part for part in drill.path] == ["local", "backward"]
    assert drill.stop_reason == "there is no operator profile"
    operators = profiles()
    mxnet = operators[operators["system"] == "mxnet/local"]
    assert torch_and_mxnet(local_records, mxnet, slow_s=0.02).stop_reason == drill.stop_reason


def test_time_outside_operators_is_not_attributed_to_them(local_records):
    drill = torch_and_mxnet(local_records, profiles(slow_s=0.0), slow_s=0.02)
    assert drill.path[-1].part == "backward"
    assert drill.stop_reason == "the operators do not explain backward"


def test_without_a_dominant_part_there_is_no_cause(local_records):
    phases = steps.means_by_run(local_records)
    mxnet = [name for name in phases.index if "mxnet" in name]
    for phase in ("load", "forward", "update", "other"):
        phases.loc[mxnet, phase] += 0.01
    phases.loc[mxnet, "timed_s"] += 0.04
    (pair,) = [
        p for p in verdicts.pairs(local_records) if (p.a, p.b) == ("pytorch/local", "mxnet/local")
    ]
    drill = drilldown.drill_down(pair, phases)
    assert [part.part for part in drill.path] == ["local"]
    assert drill.stop_reason == "within local work no part is dominant"


def test_a_difference_not_seen_in_the_instrumented_steps_has_no_cause(local_records):
    phases = steps.means_by_run(local_records)
    phases.loc[[name for name in phases.index if "mxnet" in name], "timed_s"] /= 10
    for drill in [drilldown.drill_down(pair, phases) for pair in verdicts.pairs(local_records)][1:]:
        assert drill.path == []
        assert "do not show the difference" in drill.stop_reason
        assert not drill.is_explained


def test_two_blocks_give_no_cause(tmp_path):
    for drill in drilldown.drilldowns(make_records(tmp_path, "local", blocks=2)):
        assert drill.path == []
        assert "not significant" in drill.stop_reason


def test_phases_that_one_system_does_not_measure_are_grouped():
    def measured(system):
        return frozenset({*SYSTEMS[system].phases, "other"})

    ring, server = "pytorch/sync/allreduce", "mxnet/sync/parameter_server"
    groups = comparable_phase_groups(ring, measured(ring), server, measured(server))
    assert groups == [
        ("load",), ("forward",), ("backward",), ("waiting",), ("communication", "update"),
        ("other",),
    ]  # fmt: skip
    asynchronous = "mxnet/async/parameter_server"
    groups = comparable_phase_groups(ring, measured(ring), asynchronous, measured(asynchronous))
    assert ("waiting", "communication", "update") in groups
    # A single process does not communicate: the phase takes no time and joins no group.
    groups = comparable_phase_groups(
        "pytorch/local", measured("pytorch/local"), ring, measured(ring)
    )
    assert ("communication",) in groups
    assert ("waiting",) in groups


def test_stability_warns_of_spread_drift_and_load(tmp_path):
    records = make_records(tmp_path, blocks=6)
    table = verdicts.stability(records).set_index("system")
    assert list(table["ok"]) == [6] * 5
    assert table.loc["mxnet/async/parameter_server", "warnings"] == "background load"
    assert table["drift"].notna().all()
    assert np.all(table["spread"] < 0.05)
