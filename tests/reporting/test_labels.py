"""Display names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import small_run

from horizont.config.run import Run
from horizont.networks.catalogue import NETWORKS
from horizont.reporting import labels


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_has_a_display_name(name: str) -> None:
    assert labels.network_label(name) not in NETWORKS


ASYNC = "pytorch/async/parameter_server"


def point_of(run: Run, *others: Run) -> str:
    """Return the label of the sweep point of a run among others."""
    records: list[Any] = [SimpleNamespace(run=each) for each in (run, *others)]
    points = labels.records_by_point(records)
    return next(label for label, own in points.items() if records[0] in own)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "2 x 8"),
        ({"servers": 2}, "2 x 8, 2 servers"),
        ({"servers": 2, "placement": "dedicated"}, "2 x 8, 2 servers, dedicated servers"),
        ({"link": {"rate_mbit": 100}, "threads": 2}, "2 x 8, 2 threads, 100 Mbit/s"),
        ({"cpus_per_host": 0.5, "hosts": 1}, "2 x 8, 1 host, 0.5 CPUs per host"),
    ],
)
def test_a_sweep_point_names_what_a_sweep_varies(changes: dict[str, Any], expected: str) -> None:
    topology = {"workers": 2, "servers": 1}
    run = small_run(ASYNC, topology={**topology, **changes})
    assert point_of(run, small_run(ASYNC, topology=topology)) == expected


def test_both_numbers_of_threads_are_named() -> None:
    one, two = (small_run(topology={"threads": threads}) for threads in (1, 2))
    assert (point_of(one, two), point_of(two, one)) == ("1 x 16, 1 thread", "1 x 16, 2 threads")


def test_points_are_in_the_order_of_their_size() -> None:
    shuffled = [(4, None), (12, None), (2, 1000), (2, None), (2, 100)]
    runs = [
        small_run(ASYNC, topology={"workers": workers, "servers": 1, "link": {"rate_mbit": rate}},
                  global_batch=workers)
        for workers, rate in shuffled
    ]  # fmt: skip
    records: list[Any] = [SimpleNamespace(run=run) for run in runs]
    points = ["2 x 1, 100 Mbit/s", "2 x 1, 1 Gbit/s", "2 x 1", "4 x 1", "12 x 1"]
    assert list(labels.records_by_point(records)) == points


def test_a_sweep_point_names_learning_rate_and_initial_weights() -> None:
    run = small_run()
    point = {"learning_rate": 0.1, "initial_limit": 0.01}
    changed = run.model_copy(update={"workload": run.workload.at_point(point)})
    expected = "1 x 16, learning rate 0.1, initial weights within 0.01"
    assert point_of(changed, run) == expected


def test_servers_that_each_system_has_always_are_no_part_of_a_point() -> None:
    layouts = {ASYNC: {"servers": 1}, "mxnet/async/parameter_server": {"servers": 2}}
    runs = [
        small_run(system, topology={"workers": 2, **layout}) for system, layout in layouts.items()
    ]
    assert {point_of(*runs), point_of(*reversed(runs))} == {"2 x 8"}


def test_a_sweep_point_names_the_input_pipeline() -> None:
    run = small_run("pytorch/local", input={"source": "files", "cache": True})
    assert point_of(run, small_run()) == "1 x 16, DataLoader, cache"


def test_differences_are_located_in_words() -> None:
    assert labels.cause_label("phase", "backward") == "in the backward pass"
    assert labels.cause_label("phase", "communication + update") == "in communication and update"
    assert labels.cause_label("operator", "aten::mm") == "in the operator aten::mm"
