"""The tutorial's ways: who takes part and what each is told; nothing is started here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from horizont.errors import UserError
from horizont.workflow.tutorial import PROGRAMS, plan_tutorial, start_tutorial, tutorial_program
from horizont.workflow.ways import WAYS


@pytest.mark.parametrize("name", list(WAYS))
def test_every_process_has_a_program_one_thread_and_an_address(name: str) -> None:
    way = WAYS[name]
    addresses = [f"127.0.0.1:{1000 + place}" for place in range(len(way.roles))]
    planned = plan_tutorial(way, Path("made"), addresses)
    assert len({process.name for process, _ in planned}) == len(way.roles)
    for process, member in planned:
        assert Path(process.argv[1]).exists()
        assert process.environment["OMP_NUM_THREADS"] == "1"
        assert member.variables.items() <= process.environment.items()
        assert process.is_service == (process.name.split("-")[0] in way.serving)
    assert not all(process.is_service for process, _ in planned)
    assert {path.stem for path in PROGRAMS.glob("*_*.py")} - {"__init__"} >= {way.program}


def test_each_framework_hears_who_it_is() -> None:
    places = [f"127.0.0.1:{port}" for port in range(10_001, 10_005)]
    chief = plan_tutorial(WAYS["tensorflow_servers"], Path("made"), places)[3][1]
    told = json.loads(chief.variables["TF_CONFIG"])
    assert told["task"] == {"type": "chief", "index": 0}
    assert told["cluster"]["worker"] == places[1:3]
    first, second = (
        member for _, member in plan_tutorial(WAYS["torch_ring"], Path("made"), places[:2])
    )
    assert (first.address, second.address) == (places[0], "")  # gloo takes ports of its own
    assert second.variables["RANK"] == "1"
    assert second.variables["MASTER_PORT"] == "10001"
    server = plan_tutorial(WAYS["mxnet_sync"], Path("made"), places)[1][1]
    assert server.variables["DMLC_ROLE"] == "server"
    assert (server.variables["DMLC_PS_ROOT_PORT"], server.variables["PORT"]) == ("10001", "10002")


def test_what_is_left_out_is_shown_and_not_started() -> None:
    lesson = start_tutorial("mxnet_async", "torch_ring mxnet_async")
    data, metadata = lesson._repr_mimebundle_()
    assert "left out" in data["text/plain"]
    assert metadata["horizont"]["lesson"]["distance"] is None
    assert "import mxnet" in tutorial_program("mxnet_async").text


def test_an_unknown_way_is_named() -> None:
    with pytest.raises(UserError, match=r"nonsense.*torch_ring"):
        start_tutorial("nonsense")
