import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from tests.conftest import is_running

from horizont.errors import UserError
from horizont.monitoring.client import start_sampler
from horizont.monitoring.samples import SCHEMA, read_samples

QUICK = {"scan_interval_s": 0.05, "flush_interval_s": 0.05}

_LAUNCHER = """
import sys
from pathlib import Path
from horizont.monitoring.client import start_sampler
client = start_sampler(Path(sys.argv[1]), 0.02)
print(client.pid, flush=True)
sys.stdin.read()
"""


_SEND = """
import socket
server, client = socket.create_server(("127.0.0.1", 0)), socket.socket()
client.connect(server.getsockname())
connection, _ = server.accept()
client.sendall(b"x" * 100_000)
client.close()
while connection.recv(1 << 16):
    pass
"""


def rows(folder, scope="process"):
    frame = read_samples(folder).to_pandas()
    return frame[frame["scope"] == scope]


def process_count(folder, name):
    """Count the processes of a role in the newest sample."""
    frame = rows(folder)
    newest = read_samples(folder).to_pandas()["sample"].max()
    return len(frame[(frame["sample"] == newest) & (frame["name"] == name)])


@pytest.fixture
def sampler(tmp_path):
    with start_sampler(tmp_path, 0.02, **QUICK) as client:
        yield client


def test_a_run_is_followed_from_its_start_to_its_end(sampler, start_process, tmp_path, until):
    worker, server = start_process(), start_process()
    sampler.add_root(worker.pid, "worker-0")
    sampler.add_root(server.pid, "server-0")
    until(lambda: process_count(tmp_path, "worker-0") == process_count(tmp_path, "server-0") == 1)
    worker.command("grow", 3)
    until(lambda: process_count(tmp_path, "worker-0") == 4)
    worker.command("shrink", 3)
    until(lambda: process_count(tmp_path, "worker-0") == 1)
    server.kill()
    until(lambda: process_count(tmp_path, "server-0") == 0)
    result = sampler.stop()
    assert (result.reason, result.path) == ("", tmp_path / "samples.parquet")
    processes = result.report["processes"]
    assert sorted(each["name"] for each in processes) == ["server-0"] + ["worker-0"] * 4
    assert [each["pid"] for each in processes if not each["ended"]] == [worker.pid]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["samples.json", "samples.parquet"]


@pytest.fixture(scope="module")
def record(tmp_path_factory, start_process_for_module, until):
    """A finished record of a process that burned half a second and took 200 MiB."""
    folder, process = tmp_path_factory.mktemp("record"), start_process_for_module()
    with start_sampler(folder, 0.02, **QUICK) as sampler:
        sampler.add_root(process.pid, "worker-0")
        until(lambda: process_count(folder, "worker-0"))
        process.command("burn", 0.5)
        process.command("hold", 200)
        now = time.monotonic()
        until(lambda: rows(folder)["time_s"].max() > now)
    return folder, sampler.stop()


def test_what_was_not_measured_is_null_and_never_zero(record):
    folder, _ = record
    assert read_samples(folder).schema.equals(SCHEMA)
    filled = {
        "process": {"pid", "cpu_s", "rss_bytes"},
        "interface": {"sent_bytes", "received_bytes"},
    }
    filled["sampler"] = filled["process"]
    for scope, columns in filled.items():
        frame = rows(folder, scope)
        known = set(frame.columns[frame.notna().all()])
        unknown = set(frame.columns[frame.isna().all()])
        head = {"sample", "time_s", "late_s", "host", "scope", "name"}
        assert known == head | columns
        seldom = set() if scope == "interface" else {"threads", "read_bytes", "write_bytes"}
        assert unknown == set(frame.columns) - known - seldom


def test_threads_and_disks_of_a_process_are_read_at_each_scan(record):
    for column in ("threads", "read_bytes"):
        counted = rows(record[0])[column].notna()
        assert 0 < counted.sum() < len(counted)


def test_the_host_is_measured_at_each_sample_and_counted_at_each_scan(record):
    host = rows(record[0], "host")
    assert host[["pid", "rss_bytes", "threads"]].isna().all(axis=None)
    measured = ["cpu_s", "memory_used_bytes", "load_1min", "runnable", "missed", "sent_bytes"]
    assert host[measured].notna().all(axis=None)
    assert 0 < host["processes"].notna().sum() < len(host)
    assert host["processes"].min() > 1


def test_work_and_memory_of_a_child_show_in_its_rows(record):
    mine = rows(record[0])
    assert 0.4 < mine["cpu_s"].max() - mine["cpu_s"].min() < 5
    assert mine["rss_bytes"].max() - mine["rss_bytes"].min() > 190 * 2**20
    assert mine["cpu_s"].is_monotonic_increasing


def test_samples_lie_on_a_fixed_grid_and_record_their_lateness(record):
    folder, result = record
    host = rows(folder, "host")
    due = (host["time_s"] - host["late_s"]).to_numpy()
    offset = due - 0.02 * host["sample"].to_numpy()
    assert len(host) > 10
    assert np.ptp(offset) <= 2 * 0.05 * 0.02 + 1e-6  # jitter only; nothing adds up
    assert (host["late_s"] >= 0).all()
    assert result.report["samples"] == len(host)
    assert result.report["late_max_s"] == host["late_s"].max()


def test_a_sampler_that_was_stopped_counts_missed_deadlines(sampler, tmp_path, until):
    os.kill(sampler.pid, signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(sampler.pid, signal.SIGCONT)
    until(lambda: rows(tmp_path, "host")["missed"].sum() >= 20)
    result = sampler.stop()
    host = rows(tmp_path, "host")
    gaps = np.diff(host["sample"].to_numpy()) - 1
    assert gaps.sum() == host["missed"].iloc[1:].sum()
    assert result.report["missed"] == host["missed"].sum()


def test_a_new_root_is_found_at_once(tmp_path, start_process, until):
    with start_sampler(tmp_path, 0.02, scan_interval_s=1000, flush_interval_s=0.05) as sampler:
        sampler.add_root(start_process().pid, "worker-0")
        until(lambda: process_count(tmp_path, "worker-0"))


def test_sixty_children_are_all_found(sampler, process, tmp_path, until):
    sampler.add_root(process.pid, "crowd")
    process.command("grow", 60)
    until(lambda: process_count(tmp_path, "crowd") == 61)
    process.kill()
    until(lambda: process_count(tmp_path, "crowd") == 0)
    assert sampler.stop().reason == ""


def test_a_root_that_has_ended_already_is_recorded(sampler, process, until):
    process.kill()
    sampler.add_root(process.pid, "worker-0")
    time.sleep(0.2)
    result = sampler.stop()
    assert result.reason == ""
    processes = result.report["processes"]
    assert [(each["name"], each["ended"], each["first_s"]) for each in processes] in (
        [("worker-0", True, None)],
        [],  # the sampler was too slow to sample before it was stopped
    )


def test_a_signal_ends_it_with_everything_written(tmp_path):
    client = start_sampler(tmp_path, 0.02, flush_interval_s=1000)
    os.kill(client.pid, signal.SIGTERM)
    client._process.wait(20)
    assert client._process.returncode == 0
    assert json.loads((tmp_path / "samples.json").read_text())["ended"] == "SIGTERM"
    assert len(rows(tmp_path, "host")) >= 1
    assert client.stop() == client.stop()
    assert client.stop().reason == ""


def test_a_killed_launcher_leaves_the_table_and_no_sampler(tmp_path, until, kill_at_end):
    command = [sys.executable, "-c", _LAUNCHER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as launcher:
        sampler = int(launcher.stdout.readline())
        kill_at_end.append(sampler)
        assert is_running(sampler)
        launcher.kill()
    until(lambda: not is_running(sampler))
    assert json.loads((tmp_path / "samples.json").read_text())["ended"] == "the launcher ended"
    assert len(rows(tmp_path, "host")) >= 1
    assert not (tmp_path / ".samples.arrows").exists()


def test_a_killed_sampler_loses_one_batch_and_is_reported(sampler, tmp_path, until):
    until(lambda: len(rows(tmp_path, "host")) > 5)
    os.kill(sampler.pid, signal.SIGKILL)
    result = sampler.stop()
    assert "-9" in result.reason
    assert result.path == tmp_path / "samples.parquet"
    assert len(rows(tmp_path, "host")) > 5
    assert "-9" in result.report["ended"]


def test_the_report_of_a_sampler_killed_while_it_wrote_the_table_stays(sampler, tmp_path, until):
    until(lambda: len(rows(tmp_path, "host")) > 5)
    os.kill(sampler.pid, signal.SIGKILL)
    report = {"format": 1, "ended": "stopped", "rows": 7, "missed": 3}
    (tmp_path / "samples.json").write_text(json.dumps(report))
    result = sampler.stop()
    assert result.report == report
    assert result.path == tmp_path / "samples.parquet"
    assert len(rows(tmp_path, "host")) > 5


def test_an_unfinished_table_is_replaced_by_what_the_stream_holds(sampler, tmp_path, until):
    until(lambda: len(rows(tmp_path, "host")) > 5)
    os.kill(sampler.pid, signal.SIGKILL)
    (tmp_path / ".samples.parquet.1.tmp").write_bytes(b"PAR1 half a table")
    assert len(read_samples(tmp_path)) == sampler.stop().report["rows"]


def test_a_removed_folder_is_survived_and_reported(sampler, tmp_path):
    shutil.rmtree(tmp_path)
    time.sleep(0.2)
    sampler.add_root(os.getpid(), "late")
    assert sampler.is_alive()
    result = sampler.stop()
    assert result.path is None
    assert result.report == {}
    assert "status 2" in result.reason
    assert "removed" in result.reason
    assert "Traceback" not in result.reason


def test_a_sampler_that_did_not_start_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    client = start_sampler(tmp_path, 0.02)
    assert not client.is_alive()
    result = client.stop()
    assert result.path is None
    assert "status 1" in result.reason
    assert list(tmp_path.iterdir()) == []


def test_old_samples_are_not_taken_for_new_ones(tmp_path, monkeypatch):
    for name in ("samples.parquet", "samples.json", ".samples.arrows"):
        (tmp_path / name).write_text("{}")
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert start_sampler(tmp_path).stop().path is None
    assert not (tmp_path / "samples.parquet").exists()


def test_commands_that_arrive_before_the_first_sample_are_executed(tmp_path, process, until):
    with start_sampler(tmp_path, 0.02, ready_timeout_s=0, **QUICK) as sampler:
        sampler.add_root(process.pid, "worker-0")
        until(lambda: process_count(tmp_path, "worker-0"))
    with start_sampler(tmp_path, 0.02, ready_timeout_s=0) as sampler:
        result = sampler.stop()
    assert (result.reason, result.report["ended"]) == ("", "stopped")


def test_many_commands_at_once_arrive_whole(sampler, until):
    os.kill(sampler.pid, signal.SIGSTOP)
    for pid in range(300):
        sampler.add_root(1_000_000 + pid, "x" * 50)
    os.kill(sampler.pid, signal.SIGCONT)
    result = sampler.stop()
    assert result.reason == ""
    assert [each["pid"] for each in result.report["processes"]] == [*range(1_000_000, 1_000_300)]


def test_a_hanging_sampler_does_not_block_the_launcher(sampler):
    os.kill(sampler.pid, signal.SIGSTOP)
    for pid in range(10_000):  # more than a pipe holds
        sampler.add_root(1_000_000 + pid, "x" * 50)
    assert sampler.stop().path is not None


def test_a_sampler_that_a_signal_has_stopped_is_reported(sampler, tmp_path, until):
    until(lambda: len(read_samples(tmp_path)) > 0)
    os.kill(sampler.pid, signal.SIGSTOP)
    until(lambda: psutil.Process(sampler.pid).status() == psutil.STATUS_STOPPED)
    result = sampler.stop()
    assert "stopped by a signal" in result.reason
    assert result.path is not None


def test_no_samples_yet_is_an_empty_table(tmp_path):
    assert read_samples(tmp_path).num_rows == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [("interval_s", 0), ("interval_s", float("nan")), ("scan_interval_s", -1)],
)
def test_an_impossible_setting_is_refused_before_anything_starts(tmp_path, field, value):
    with pytest.raises(UserError, match=field):
        start_sampler(tmp_path, **{field: value})
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="gone"):
        start_sampler(tmp_path / "gone")


#: As `ip link set lo up` does it (SIOCSIFFLAGS, IFF_UP), without iproute2; then waits for its end.
_LOOPBACK_UP = """
import fcntl, socket, struct, sys
with socket.socket() as control:
    fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", 1))
print("up", flush=True)
sys.stdin.read()
"""


def test_interfaces_of_another_network_namespace_are_sampled(tmp_path, until):
    def namespace_rows():
        interfaces = rows(tmp_path, "interface")
        return interfaces[interfaces["host"] != "localhost"]

    namespace = ["unshare", "--user", "--map-root-user", "--net"]
    with subprocess.Popen(
        [*namespace, sys.executable, "-c", _LOOPBACK_UP],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as child:  # fmt: skip
        if child.stdout.readline() != b"up\n":
            pytest.skip("no network namespaces")
        with start_sampler(tmp_path, 0.02, **QUICK) as sampler:
            sampler.add_host("host-1", Path(f"/proc/{child.pid}/net/dev"))
            sampler.add_host("host-2", Path("/proc/no-such-process/net/dev"))
            enter = ["nsenter", "-t", str(child.pid), "--user", "--preserve-credentials", "--net"]
            subprocess.run([*enter, sys.executable, "-c", _SEND], check=True)
            until(lambda: namespace_rows()["sent_bytes"].max() > 100_000)
            child.communicate()  # its last process ends; the counters can be read all the same
            result = sampler.stop()
    interfaces = namespace_rows()
    assert set(interfaces["host"]) == {"host-1"}
    loopback = interfaces[interfaces["name"] == "lo"]
    assert 100_000 < loopback["sent_bytes"].max() < 110_000
    assert (loopback["sent_bytes"] == loopback["received_bytes"]).all()
    assert (result.reason, result.report["problems"]) == ("", {"ENOENT": 1})


def test_the_host_agrees_with_psutil(record):
    host, memory = rows(record[0], "host"), psutil.virtual_memory()
    cpu = psutil.cpu_times()
    assert 0 < host["cpu_s"].max() <= cpu.user + cpu.nice + cpu.system + cpu.irq + cpu.softirq
    assert host["steal_s"].max() <= cpu.steal
    assert host["cpu_s"].is_monotonic_increasing
    total = host["memory_used_bytes"] + host["memory_available_bytes"]
    assert (total == memory.total).all()
    assert (host["runnable"] >= 1).all()
    assert host["runnable"].max() < host["processes"].max() * 50


def test_interfaces_agree_with_psutil(record):
    counters = psutil.net_io_counters(pernic=True, nowrap=False)
    interfaces = rows(record[0], "interface")
    assert set(interfaces["name"]) == set(counters)
    for name, own in interfaces.groupby("name"):
        assert own["sent_bytes"].max() <= counters[name].bytes_sent
        assert own["received_bytes"].max() <= counters[name].bytes_recv
    host = rows(record[0], "host").set_index("sample")
    assert (interfaces.groupby("sample")["sent_bytes"].sum() == host["sent_bytes"]).all()


def test_importing_the_client_does_not_import_the_sampler():
    code = (
        "import sys, horizont.monitoring.client\n"
        "sys.exit(bool({'horizont.monitoring.sampler', 'pandas'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
