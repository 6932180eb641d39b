"""The queueing model of asynchronous training, against a simulation of single messages."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bench.coverage import CURVES, model_coverage
from record_maker import ENVIRONMENT
from tests.conftest import small_run

from horizont.analysis import extrapolation
from horizont.analysis.capacity_model import Arrangement, Demands, calibrate, fit, throughput
from horizont.analysis.claims import predictions
from horizont.records.files import write_table
from horizont.records.record import RecordWriter, read_record
from horizont.records.results import RunResult
from horizont.reporting import style
from horizont.reporting.figures.scaling import capacity_figure

UPDATES = 8000
SYSTEM = "pytorch/async/parameter_server"


def simulate(demands, workers, servers=1, *, constant=False):
    """Return updates per second; exponential computing, and exponential or constant service.

    Without `servers` there is one on the host of each worker, which interrupts the worker. Every
    server serves one slice at a time, in order of arrival.
    """
    random = np.random.default_rng([workers, servers, constant])
    number = servers or workers
    free_s, finish_s = np.zeros(number), random.exponential(demands.worker_s, workers)
    computing = [True] * workers
    events = [(time_s, worker) for worker, time_s in enumerate(finish_s)]
    heapq.heapify(events)
    updates = time_s = 0
    while updates < UPDATES:
        time_s, worker = heapq.heappop(events)
        if computing[worker] and finish_s[worker] > time_s:  # it was interrupted
            heapq.heappush(events, (finish_s[worker], worker))
        elif computing[worker]:
            computing[worker] = False
            mean_s = demands.update_s / number
            service_s = np.full(number, mean_s) if constant else random.exponential(mean_s, number)
            free_s = np.maximum(free_s, time_s) + service_s
            if not servers:
                finish_s += np.where(computing, service_s, 0.0)
            heapq.heappush(events, (free_s.max(), worker))
        else:
            updates += 1
            computing[worker] = True
            backlog_s = 0.0 if servers else max(free_s[worker] - time_s, 0.0)
            finish_s[worker] = time_s + backlog_s + random.exponential(demands.worker_s)
            heapq.heappush(events, (finish_s[worker], worker))
    return updates / time_s


def predicted(demands, workers, servers=1):
    return throughput(demands, Arrangement(servers), workers)[-1]


@pytest.mark.parametrize("workers", [1, 3, 8, 20])
def test_one_server_is_exact_for_exponential_service(workers):
    demands = Demands(1.0, 0.2)
    assert predicted(demands, workers) == pytest.approx(simulate(demands, workers), rel=0.03)


@pytest.mark.parametrize("workers", [2, 5, 8, 20])
def test_constant_service_is_faster_by_a_tenth_at_most(workers):
    demands = Demands(1.0, 0.2)
    ratio = simulate(demands, workers, constant=True) / predicted(demands, workers)
    assert 0.98 < ratio < 1.1
    # No schedule exceeds the bounds of an empty queue and of a server that never idles.
    assert predicted(demands, workers) <= min(workers / 1.2, 1 / 0.2)


@pytest.mark.parametrize("servers", [2, 4])
@pytest.mark.parametrize("workers", [1, 6, 16])
def test_several_servers_serve_slices_at_once(servers, workers):
    demands = Demands(1.0, 0.8)
    expected = simulate(demands, workers, servers)
    assert predicted(demands, workers, servers) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("workers", [1, 2, 5, 12])
@pytest.mark.parametrize("update_s", [0.1, 0.5])
def test_servers_on_the_hosts_of_the_workers_take_their_time(workers, update_s):
    demands = Demands(1.0, update_s)
    expected = simulate(demands, workers, servers=0)
    assert predicted(demands, workers, servers=0) == pytest.approx(expected, rel=0.08)


def test_links_limit_the_throughput():
    # Each direction of a host with a server and a worker carries two transfers a step.
    link = Arrangement(0, uplink_s=0.5, downlink_s=0.5)
    rates = throughput(Demands(0.1, 0.0001), link, 30)
    assert rates[-1] < 30 / (2 * 0.5 * 29 / 30)
    slow = fit(np.array([1, 2, 4]), np.array([2.0, 3.0, 3.9]), Arrangement(1, 0.25, 0.1))
    assert slow.update_s >= 0.25


@pytest.mark.parametrize("servers", [0, 1, 3])
def test_the_times_are_recovered(servers):
    demands, arrangement = Demands(0.05, 0.011), Arrangement(servers)
    workers = np.array([1, 2, 5])
    found = fit(workers, throughput(demands, arrangement, 5)[workers - 1], arrangement)
    assert found.worker_s == pytest.approx(0.05, rel=1e-3)
    assert found.update_s == pytest.approx(0.011, rel=1e-3)


def test_small_numbers_predict_the_simulation_of_large_ones():
    demands, numbers = Demands(1.0, 0.3), np.array([1, 2, 3, 4, 5])
    rates = np.array([simulate(demands, number) for number in numbers])
    model = throughput(fit(numbers, rates, Arrangement()), Arrangement(), 25)
    for number in (10, 25):
        assert model[number - 1] == pytest.approx(simulate(demands, number), rel=0.08)


def test_the_cpu_time_of_an_idle_server_shows_where_it_will_be_busy():
    demands, numbers = Demands(1.0, 0.03), np.array([1, 2, 5])
    rates = throughput(demands, Arrangement(), 50)
    measured = rates[numbers - 1] * [1.0, 0.99, 1.01]  # noise hides that the server saturates
    alone, informed = (
        throughput(fit(numbers, measured, Arrangement(), update_s), Arrangement(), 50)[-1]
        for update_s in (math.nan, 0.031)
    )
    assert alone > 1.3 * rates[-1]
    assert informed == pytest.approx(rates[-1], rel=0.05)
    # A server that the link limits has little to compute.
    rates = throughput(Demands(1.0, 0.3), Arrangement(), 5)[numbers - 1]
    assert 0.25 < fit(numbers, rates, Arrangement(1, 0.28, 0.0), 0.01).update_s < 0.31
    assert fit(numbers, rates, Arrangement(1, 0.25, 0.0), 0.01).update_s > 0.255


def make_points(rate_of, workers=(1, 2, 5, 10, 16), blocks=6, noise=0.02, seed=0):
    """Generate points with noise, part of which the runs of a block share."""
    random = np.random.default_rng(seed)
    rows = []
    for block in range(blocks):
        shared = noise * random.normal()
        for number in workers:
            rate = rate_of(number) * np.exp(shared + noise * random.normal())
            rows.append((number, block, rate))
    points = pd.DataFrame(rows, columns=["workers", "block", "updates_per_s"])
    return points.assign(update_s=math.nan)


def test_held_out_points_are_predicted_with_their_interval():
    """The medians of the errors, and the coverage, over simulated studies."""
    tables = []
    for seed, ratio in enumerate((2.0, 3.0, 4.0) * 5):
        demands = Demands(0.03, 0.03 / ratio)
        rates = throughput(demands, Arrangement(), 16)
        points = make_points(lambda n, rates=rates: rates[n - 1], blocks=4, seed=seed)
        tables.append(extrapolation.compare(points, Arrangement())[1].query("held_out"))
    table = pd.concat(tables)
    assert table["error"].abs().median() < 0.05
    assert table["inside"].mean() >= 0.85


def test_intervals_of_few_blocks_are_wide_enough():
    assert model_coverage(CURVES[0], blocks=4, trials=40) >= 0.93


def test_intervals_follow_the_noise():
    rates = throughput(Demands(0.03, 0.01), Arrangement(), 5)
    quiet, noisy = (
        calibrate(make_points(lambda n: rates[n - 1], (1, 2, 5), 4, noise), Arrangement())
        for noise in (0.002, 0.02)
    )
    widths = [np.log(e.high / e.low) for model in (quiet, noisy) for e in model.predict([25])]
    assert widths[1] > 5 * widths[0] > 0


def make_records(store, rate_of, workers, blocks=3, server_cpu_s=None, system=SYSTEM, **topology):
    """Write records of workers with equal steps, whose throughput follows `rate_of` with noise.

    The CPU time of an update is `server_cpu_s` of the number of workers.
    """
    records = []
    points = make_points(rate_of, workers, blocks, noise=0.004)
    for number, block, rate, _ in points.itertuples(index=False):
        servers = {"servers": number} if topology.get("placement") == "colocated" else {}
        values = {"launcher": "emulated", "workers": number, "servers": 1, **topology, **servers}
        run = small_run(system, topology=values, global_batch=8 * number, block=block)
        writer = RecordWriter(store, f"{number}-{block}")
        machine = {"cpu": {"affinity": list(range(64))}, "capabilities": ["shared_clock"]}
        writer.start(run, {**ENVIRONMENT, **machine})
        step_s = number / rate
        steps = pd.DataFrame({"step": np.arange(6), "start_s": np.arange(6) * step_s})
        steps = pd.concat([steps.assign(worker=n) for n in range(number)])
        steps = steps.assign(kind="timed", step_s=step_s, loss=1.0, examples=run.local_batch)
        table = pa.Table.from_pandas(steps, preserve_index=False)
        write_table(writer.folder / "steps.parquet", table)
        if server_cpu_s is not None:
            times_s = np.array([-1.0, 10 * step_s])
            used_s = server_cpu_s(number) * rate * times_s
            rows = {"time_s": times_s, "scope": "process", "cpu_s": used_s}
            samples = [
                pd.DataFrame({**rows, "name": name, "pid": pid})
                for pid, name in enumerate(("worker-0", "server-0"))
            ]
            table = pa.Table.from_pandas(pd.concat(samples), preserve_index=False)
            write_table(writer.folder / "samples.parquet", table)
        result = RunResult(status="ok", parameters=25_000)
        records.append(read_record(writer.finish(result)))
    return records


def test_a_curve_that_the_model_can_have_may_be_used(tmp_path):
    arrangement, demands = Arrangement(), Demands(0.03, 0.009)
    rates = throughput(demands, arrangement, 50)
    records = make_records(tmp_path, lambda n: rates[n - 1], (1, 2, 5, 10), placement="dedicated")
    assert extrapolation.has_extrapolation(records)
    (found,) = extrapolation.extrapolations(records)
    assert (found.system, found.servers, found.local_batch) == (SYSTEM, 1, 8)
    assert found.points["held_out"].tolist() == [False, False, False, True]
    assert found.unusable_reason == ""
    (estimate,) = found.model.predict([50])
    assert estimate.value == pytest.approx(rates[49], rel=0.05)
    assert estimate.low < rates[49] < estimate.high
    output = capacity_figure(records)
    assert "1 server, batch 8: used, off by at most" in output.caption
    assert output.data["workers"].max() == 50
    assert output.data["measured"].count() == 4
    markers = [line for line in output.figure.axes[0].lines if line.get_linestyle() == "None"]
    fills = [line.get_markerfacecolor() == style.BACKGROUND for line in markers]
    assert [(list(line.get_xdata()), fill) for line, fill in zip(markers, fills, strict=True)] == [
        ([1, 2, 5], False),
        ([10], True),
    ]


def test_claims_get_a_prediction_for_each_block(tmp_path):
    rates = throughput(Demands(0.03, 0.009), Arrangement(), 50)
    records = make_records(tmp_path, lambda n: rates[n - 1], (1, 2, 5, 10), placement="dedicated")
    certificates = {"lenet5-cifar10": "verified"}
    found = predictions.model_predictions(records, certificates)
    workers = {item.setting.workers for item in found}
    assert {15, 20, 25, 50} <= workers
    assert min(workers) > 10
    assert {item.block for item in found} == {0, 1, 2}
    assert len(found) == 3 * len(workers)
    (of_25,) = (item for item in found if (item.setting.workers, item.block) == (25, 1))
    assert of_25.read("examples_per_s") == pytest.approx(8 * rates[24], rel=0.1)
    assert of_25.read("step_s") == pytest.approx(25 / rates[24], rel=0.1)
    assert of_25.record is None
    assert of_25.records == ("10-1",)
    # Without a certificate, and with a model that is wrong, there are none.
    assert predictions.model_predictions(records, {}) == []
    linear = make_records(
        tmp_path / "other", lambda n: rates[0] * n if n > 5 else rates[n - 1], (1, 2, 5, 10),
        placement="dedicated",
    )  # fmt: skip
    assert predictions.model_predictions(linear, certificates) == []


def test_a_curve_that_the_model_cannot_have_is_refused(tmp_path):
    """Throughput that falls beyond five workers, as with messages that are sent again."""
    records = make_records(
        tmp_path, lambda n: 30 * n / (1 + 0.02 * n * n), (1, 2, 5, 16), placement="dedicated"
    )
    (found,) = extrapolation.extrapolations(records)
    assert "at 16 workers, more than 10%" in found.unusable_reason
    output = capacity_figure(records)
    assert f"not used, {found.unusable_reason}." in output.caption
    assert output.data["workers"].max() == 16


def test_cpu_time_counts_at_the_speed_of_the_host(tmp_path):
    records = make_records(
        tmp_path,
        lambda n: 20 * n,
        (1, 2, 4, 6),
        server_cpu_s=lambda n: 0.001 * (1 + 1 / n),
        placement="dedicated",
        cpus_per_host=0.25,
    )
    (found,) = extrapolation.extrapolations(records)
    # That with most of the fitted workers, four, on a quarter of a core.
    assert found.model.demands.update_s == pytest.approx(0.005, rel=0.05)


def test_servers_on_all_hosts_are_one_curve(tmp_path):
    link = {"rate_mbit": 100, "uplink_mbit": 50}
    records = make_records(
        tmp_path, lambda n: 20 * n, (1, 2, 4, 6), placement="colocated", link=link
    )
    (found,) = extrapolation.extrapolations(records)
    assert found.servers == 0
    # 25,000 numbers of 32 bits.
    assert found.model.arrangement == Arrangement(0, pytest.approx(0.016), pytest.approx(0.008))
    assert "how the weights are distributed" not in found.unusable_reason


def test_servers_with_unequal_slices_have_no_predictions(tmp_path):
    system = "mxnet/async/parameter_server"
    records = make_records(
        tmp_path, lambda n: 20 * n, (1, 2, 4, 6), placement="colocated", system=system
    )
    (found,) = extrapolation.extrapolations(records)
    assert "how the weights are distributed" in found.unusable_reason


@pytest.mark.parametrize(
    ("workers", "blocks", "topology"),
    [
        ((1, 2, 5), 3, {"placement": "dedicated"}),
        ((1, 5, 10), 3, {"placement": "dedicated"}),
        ((1, 2, 5, 10), 2, {"placement": "dedicated"}),
        ((2, 3, 5, 10), 3, {"placement": "dedicated", "hosts": 2}),
        ((1, 2, 5, 40), 3, {"placement": "dedicated", "threads": 2}),
    ],
    ids=["nothing held out", "few numbers", "few blocks", "shared hosts", "oversubscribed"],
)
def test_without_enough_points_there_is_no_model(tmp_path, workers, blocks, topology):
    records = make_records(tmp_path, lambda n: 20 * n, workers, blocks, **topology)
    assert not extrapolation.has_extrapolation(records)
    assert extrapolation.extrapolations(records) == []
