"""Parts of an emulated host: network namespace, rate limit of its link, CPU quota.

The namespaces are anonymous. Each lives as long as a holder process, which waits for the end of its
standard input, a pipe of the launcher. However the launcher ends, the pipe is closed, the holder
exits, and the kernel removes the namespace and its interfaces with the last process inside. So
nothing has to be cleaned up afterwards, and runs cannot collide.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

#: Commands of iproute2 and util-linux.
REQUIRED_TOOLS = ("ip", "tc", "unshare", "nsenter", "mount", "hostname", "taskset")

#: Name of the interface of a host.
HOST_INTERFACE = "eth0"

#: Seconds that a holder process gets to exit.
RELEASE_TIMEOUT_S = 10.0

#: Longest time in a queue; that of an average switch.
QUEUE_MS = 50

#: A token bucket holds what a link sends in this time: a few ticks of the kernel's clock.
BURST_S = 0.004

#: Least size of a token bucket: one segment of the largest size that the kernel hands down.
BURST_BYTES = 1 << 16

#: A group that has used its quota waits for the next period. With the kernel's default of 100 ms a
#: training step would wait for many times its own duration.
QUOTA_PERIOD_US = 10_000

#: The least that the kernel accepts; a smaller share of a core has a longer period.
MIN_QUOTA_US = 1000


class ClusterError(Exception):
    """Hosts that could not be created, with the reason in a sentence."""


class HolderProcess:
    """A process that holds a resource until its standard input, a pipe of the launcher, ends.

    It prints ``ready`` when the resource exists.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C must not reach it
        )

    @property
    def pid(self) -> int:
        """The process ID."""
        return self.process.pid

    def wait_ready(self) -> None:
        """Wait until the resource exists; raise a `ClusterError` if the system refuses it."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode().strip()
        if line != "ready":
            rest = self.process.stdout.read().decode().strip().splitlines()
            raise ClusterError((rest or [line])[-1] or "the holder process exited")

    def release(self) -> None:
        """Close the pipe, so that the process exits."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait_released(self) -> None:
        """Wait until the process has exited; kill it after `RELEASE_TIMEOUT_S`."""
        assert self.process.stdout is not None
        try:
            self.process.wait(RELEASE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Namespace(HolderProcess):
    """Network, UTS and mount namespaces of a host, entered by the ID of the holder process.

    The holder process runs the shell commands `cleanup_command` before it exits.
    """

    def __init__(self, cleanup_command: str = "") -> None:
        script = f"echo ready; cat >/dev/null; {cleanup_command}"
        super().__init__(["unshare", "--net", "--uts", "--mount", "sh", "-c", script])

    def run(self, *command: str, stdin: str | None = None) -> None:
        """Run a command inside; raise a `ClusterError` if it fails."""
        completed = subprocess.run(
            [*self.command_prefix(), *command],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if completed.returncode:
            message = (completed.stderr or completed.stdout).strip()
            raise ClusterError(f"{' '.join(command)}: {message}")

    def ip(self, lines: Iterable[str]) -> None:
        """Run commands of ``ip`` inside, all in one process."""
        self.run("ip", "-batch", "-", stdin="\n".join(lines) + "\n")

    def command_prefix(self, folder: Path | None = None) -> tuple[str, ...]:
        """Return the argv prefix that runs a command inside, in `folder`."""
        nsenter = ("nsenter", "--target", str(self.pid), "--net", "--uts", "--mount")
        return (*nsenter, f"--wd={folder}", "--") if folder else (*nsenter, "--")


def set_rate_limit(namespace: Namespace, interface: str, rate_mbit: float | None) -> None:
    """Set the rate at which an interface sends, in 10^6 bits per second; None for no limit."""
    if rate_mbit is None:
        return
    burst_bytes = max(BURST_BYTES, int(rate_mbit * 1e6 / 8 * BURST_S))
    token_bucket = f"rate {round(rate_mbit * 1e6)}bit burst {burst_bytes}b latency {QUEUE_MS}ms"
    command = f"tc qdisc replace dev {interface} root tbf {token_bucket}"
    namespace.run(*command.split())


class CpuQuota:
    """A control group, named uniquely on this machine, that may use so many cores on average."""

    def __init__(self, name: str, cpus: float) -> None:
        root = Path("/sys/fs/cgroup")
        self.is_cgroup_v2 = (root / "cgroup.controllers").exists()
        if not self.is_cgroup_v2:
            root /= "cpu"
            if not os.access(root, os.W_OK):
                raise OSError("no writable control group for CPU time")
        self.quota_us = max(MIN_QUOTA_US, round(cpus * QUOTA_PERIOD_US))
        self.period_us = max(QUOTA_PERIOD_US, round(MIN_QUOTA_US / cpus))
        self.folder = root / name
        self.folder.mkdir()
        self.is_applied = False

    def apply(self) -> None:
        """Set the limit from now on."""
        if self.is_applied:  # each write would start a new period
            return
        self.is_applied = True
        if self.is_cgroup_v2:
            (self.folder / "cpu.max").write_text(f"{self.quota_us} {self.period_us}")
        else:
            (self.folder / "cpu.cfs_period_us").write_text(str(self.period_us))
            (self.folder / "cpu.cfs_quota_us").write_text(str(self.quota_us))

    @property
    def command_prefix(self) -> tuple[str, ...]:
        """The argv prefix that runs a command in the group."""
        return ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self.folder))

    @property
    def cleanup_command(self) -> str:
        """Shell commands that remove the group once its last process has exited.

        An agent whose launcher was killed exits when its lease has expired.
        """
        return (
            f"for i in $(seq 80); do rmdir '{self.folder}' 2>/dev/null && break; sleep 0.1; done; "
        )
