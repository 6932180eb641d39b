"""Pairs and their drill-down: nothing is lost on the way down, and the cause is named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from record_maker import make_records

from horizont import analysis
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
def alone(tmp_path_factory):
    return make_records(tmp_path_factory.mktemp("store"), "local")


def profiles(phases=True, slow_s=0.004):
    """Operators of two frameworks, which MXNet's pooling is slow by."""
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


def test_every_pair_is_a_row_with_one_of_four_verdicts(records):
    table = analysis.pairwise_verdicts(records, "verified")
    assert len(table) == 10
    assert set(table["outcome"]) <= OUTCOMES
    known = table.set_index(["a", "b"]).loc[
        ("pytorch/sync/allreduce", "mxnet/sync/parameter_server")
    ]
    assert known["outcome"] == "A faster"
    assert known["blocks"] == known["planned"] == 3
    assert set(known["records"]) <= {record.folder.name for record in records}
    assert len(known["records"]) == 6


def test_a_system_that_failed_is_a_row_with_its_reason(records):
    table = analysis.pairwise_verdicts(records, "verified")
    lost = table[(table["a"] == FAILED) | (table["b"] == FAILED)]
    assert len(lost) == 4
    assert set(lost["outcome"]) == {"not settled"}
    assert lost["reason"].str.contains("address already in use").all()
    assert (lost["blocks"] == 0).all()


def test_without_a_proof_there_is_no_verdict(records):
    table = analysis.pairwise_verdicts(records, {"mxnet": "verified"})
    proven = table["a"].str.startswith("mxnet") & table["b"].str.startswith("mxnet")
    assert set(table.loc[~proven, "outcome"]) == {"not comparable"}
    assert set(table.loc[proven, "outcome"]) == {"not settled"}
    assert table.loc[~proven, "reason"].str.contains("no proof").all()


def test_a_single_process_is_no_rival_of_several(tmp_path, records, alone):
    both = [*records, *(make_records(tmp_path, "local", blocks=1))]
    alike = [record for record in both if record.run.system.framework == "pytorch"]
    assert analysis.pairs(alike) == []
    assert len(analysis.pairs(alone)) == 3


def test_servers_that_were_varied_are_refused(alone):
    with pytest.raises(UserError, match="one number and place of servers"):
        analysis.pairs([*alone, alone[0]])


def test_nothing_is_a_table_too():
    assert analysis.pairwise_verdicts([]).empty
    assert analysis.drilldowns([]) == []


def adds_up(drill):
    """Whether the parts at each level add up to what they are parts of."""
    table = drill.table()
    for (level, within), own in table[table["parent"] != ""].groupby(["level", "parent"]):
        whole = table.loc[table["part"] == within].iloc[0]
        for column in ("difference_s", "fraction"):
            assert own[column].sum() == pytest.approx(whole[column], abs=1e-12), (level, within)
    assert table.iloc[0]["fraction"] == 1.0


@pytest.mark.parametrize("operators", [None, profiles(), profiles(phases=False)])
def test_the_shares_add_up_at_every_level(records, alone, operators):
    for drill in analysis.drilldowns(alone, operators):
        adds_up(drill)
    for drill in analysis.drilldowns(records):
        if FAILED in (drill.pair.a, drill.pair.b):
            assert drill.parts == ()
        else:
            adds_up(drill)
            step = drill.step
            assert step.difference_s == pytest.approx(step.b_s - step.a_s)


def torch_and_mxnet(records, operators, slow_s=0.0, part="backward"):
    """Drill between two systems, of which MXNet's runs were slowed in one phase."""
    seen = analysis.phases_by_run(records)
    ours = [name for name in seen.index if "mxnet" in name]
    seen.loc[ours, [part, "timed_s"]] += slow_s
    (pair,) = [p for p in analysis.pairs(records) if (p.a, p.b) == ("pytorch/local", "mxnet/local")]
    return analysis.drill_down(pair, seen, operators)


def test_a_slow_operator_is_found_and_named(alone):
    drill = torch_and_mxnet(alone, profiles(slow_s=0.02), slow_s=0.02)
    assert [each.part for each in drill.path] == [
        "local", "backward", "pooling", "_backward_Pooling",
    ]  # fmt: skip
    assert drill.stop_reason == ""
    unphased = torch_and_mxnet(alone, profiles(phases=False, slow_s=0.02), slow_s=0.02)
    assert unphased.path[-1].part == "_backward_Pooling"


def test_without_a_profile_the_search_ends_at_a_phase(alone):
    drill = torch_and_mxnet(alone, None, slow_s=0.02)
    assert [each.part for each in drill.path] == ["local", "backward"]
    assert drill.stop_reason == "no profile of operators is there"
    other = profiles()
    only = other[other["system"] == "mxnet/local"]
    assert torch_and_mxnet(alone, only, slow_s=0.02).stop_reason == drill.stop_reason


def test_what_the_operators_do_not_hold_is_not_blamed_on_them(alone):
    drill = torch_and_mxnet(alone, profiles(slow_s=0.0), slow_s=0.02)
    assert drill.path[-1].part == "backward"
    assert drill.stop_reason == "the operators do not explain backward"


def test_where_nothing_stands_out_nothing_is_named(alone):
    seen = analysis.phases_by_run(alone)
    ours = [name for name in seen.index if "mxnet" in name]
    for part in ("load", "forward", "update", "other"):
        seen.loc[ours, part] += 0.01
    seen.loc[ours, "timed_s"] += 0.04
    (pair,) = [p for p in analysis.pairs(alone) if (p.a, p.b) == ("pytorch/local", "mxnet/local")]
    drill = analysis.drill_down(pair, seen)
    assert [each.part for each in drill.path] == ["local"]
    assert drill.stop_reason == "inside local work no part stands out"


def test_a_difference_that_the_instrumented_steps_do_not_show_has_no_cause(alone):
    seen = analysis.phases_by_run(alone)
    seen.loc[[name for name in seen.index if "mxnet" in name], "timed_s"] /= 10
    for drill in [analysis.drill_down(pair, seen) for pair in analysis.pairs(alone)][1:]:
        assert drill.path == ()
        assert "do not show the difference" in drill.stop_reason
        assert not drill.is_explained


def test_two_blocks_name_no_cause(tmp_path):
    for drill in analysis.drilldowns(make_records(tmp_path, "local", blocks=2)):
        assert drill.path == ()
        assert "not certain" in drill.stop_reason


def test_what_one_system_cannot_tell_apart_is_held_together_for_both():
    def known(system):
        return frozenset({*SYSTEMS[system].phases, "other"})

    ring, server = "pytorch/sync/allreduce", "mxnet/sync/parameter_server"
    groups = comparable_phase_groups(ring, known(ring), server, known(server))
    assert groups == [
        ("load",), ("forward",), ("backward",), ("waiting",), ("communication", "update"),
        ("other",),
    ]  # fmt: skip
    asynchronous = "mxnet/async/parameter_server"
    groups = comparable_phase_groups(ring, known(ring), asynchronous, known(asynchronous))
    assert ("waiting", "communication", "update") in groups
    # A single process does not communicate: that is nothing, and not a part of something else.
    groups = comparable_phase_groups("pytorch/local", known("pytorch/local"), ring, known(ring))
    assert ("communication",) in groups
    assert ("waiting",) in groups


def test_stability_warns_of_spread_drift_and_load(tmp_path):
    records = make_records(tmp_path, blocks=6)
    table = analysis.stability(records).set_index("system")
    assert list(table["ok"]) == [6] * 5
    assert table.loc["mxnet/async/parameter_server", "warnings"] == "background load"
    assert table["drift"].notna().all()
    assert np.all(table["spread"] < 0.05)
