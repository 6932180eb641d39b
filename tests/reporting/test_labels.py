"""Display names."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conftest import small_run

from horizont.networks.catalogue import NETWORKS
from horizont.reporting import labels


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_has_a_display_name(name: str) -> None:
    assert labels.network_label(name) not in NETWORKS


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "2 x 8"),
        ({"servers": 2}, "2 x 8, 2 servers"),
        ({"servers": 2, "placement": "dedicated"}, "2 x 8, 2 servers, dedicated servers"),
        ({"link": {"rate_mbit": 100}, "threads": 2}, "2 x 8, 2 threads, 100 Mbit/s"),
        ({"cpus_per_host": 0.5, "hosts": 1}, "2 x 8, 1 hosts, 0.5 CPUs per host"),
    ],
)
def test_a_sweep_point_names_what_a_sweep_may_vary(changes: dict[str, Any], expected: str) -> None:
    topology = {"workers": 2, "servers": 1, **changes}
    run = small_run("pytorch/async/parameter_server", topology=topology)
    assert ", ".join(labels.point_parts(run)) == expected


def test_a_sweep_point_names_the_input_pipeline() -> None:
    run = small_run("pytorch/local", input={"source": "files", "cache": True})
    assert ", ".join(labels.point_parts(run)) == "1 x 16, DataLoader, cache"


def test_differences_are_located_in_words() -> None:
    assert labels.cause_label("phase", "backward") == "in the backward pass"
    assert labels.cause_label("phase", "communication + update") == "in communication and update"
    assert labels.cause_label("operator", "aten::mm") == "in the operator aten::mm"
