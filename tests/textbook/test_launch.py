"""The programs of chapter 11 and the environments of their processes; nothing is started here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from horizont.errors import UserError
from horizont_textbook.launch import FOLDER, PROGRAMS, plan_processes, program_source, run_program


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_every_process_has_a_program_one_thread_and_an_address(name: str) -> None:
    program = PROGRAMS[name]
    addresses = [f"127.0.0.1:{1000 + index}" for index in range(len(program.roles))]
    plans, rows = plan_processes(program, Path("root"), addresses)
    assert len({plan.name for plan in plans}) == len(program.roles)
    for plan, row in zip(plans, rows, strict=True):
        assert Path(plan.argv[1]).exists()
        assert plan.environment["OMP_NUM_THREADS"] == "1"
        assert plan.name == row["process"]
        shown = [f"{key}={value}" in row["environment"] for key, value in plan.environment.items()]
        assert any(shown) == (len(plans) > 1)
        assert plan.is_service == (plan.name.split("-")[0] in program.services)
    assert not all(plan.is_service for plan in plans)


def test_every_program_is_used() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert files == {program.path.stem for program in PROGRAMS.values()}


def test_each_framework_has_its_environment() -> None:
    addresses = [f"127.0.0.1:{port}" for port in range(10_001, 10_005)]
    plans, _ = plan_processes(PROGRAMS["tensorflow_parameter_server"], Path("root"), addresses)
    config = json.loads(plans[3].environment["TF_CONFIG"])
    assert config["task"] == {"type": "chief", "index": 0}
    assert config["cluster"]["worker"] == addresses[1:3]
    plans, rows = plan_processes(PROGRAMS["torch_allreduce"], Path("root"), addresses[:2])
    assert [row["address"] for row in rows] == [addresses[0], "–"]  # gloo picks its own ports
    assert plans[1].environment["RANK"] == "1"
    assert plans[1].environment["MASTER_PORT"] == "10001"
    server = plan_processes(PROGRAMS["mxnet_dist_sync"], Path("root"), addresses)[0][1].environment
    assert server["DMLC_ROLE"] == "server"
    assert (server["DMLC_PS_ROOT_PORT"], server["PORT"]) == ("10001", "10002")


def test_a_skipped_program_is_shown_and_not_run() -> None:
    run = run_program("mxnet_dist_async", "torch_allreduce mxnet_dist_async")
    data, metadata = run._repr_mimebundle_()
    assert "not part of this run" in data["text/plain"]
    assert metadata["horizont"]["program"]["distance"] is None
    assert "import mxnet" in program_source("mxnet_dist_async").text


def test_an_unknown_program_is_named() -> None:
    with pytest.raises(UserError, match=r"nonsense.*torch_allreduce"):
        run_program("nonsense")
