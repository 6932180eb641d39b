"""A host of its own: a network namespace, with a name and a table of names.

Namespaces here have no names on the machine. Each is kept by a process that waits for the end of
its standard input, a pipe that the launcher holds. When the launcher is gone, however it went, the
pipe ends, the keeper ends, and with it and the last process inside the kernel takes the namespace
down, its interfaces with it. So nothing has to be swept, and runs cannot collide.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

#: What the system must offer: iproute2 and util-linux.
REQUIRED_TOOLS = ("ip", "tc", "unshare", "nsenter", "mount", "hostname")


class ClusterError(Exception):
    """Hosts that could not be made, with the reason in a sentence."""


class HolderProcess:
    """A process that keeps something until its standard input ends, which is a pipe of ours."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C is for the launcher
        )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self.process.pid

    def wait_ready(self) -> None:
        """Return when it is there.

        Raises
        ------
        HostsError
            If the system does not let us make it.
        """
        assert self.process.stdout is not None
        said = self.process.stdout.readline().decode().strip()
        if said != "ready":
            rest = self.process.stdout.read().decode().strip().splitlines()
            raise ClusterError((rest or [said])[-1] or "the keeper ended without a word")

    def release(self) -> None:
        """Let the process go."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait_released(self, timeout_s: float = 10.0) -> None:
        """Wait for its end."""
        assert self.process.stdout is not None
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Namespace(HolderProcess):
    """A kept namespace, entered by the number of its keeper; it ends with the last process inside.

    Parameters
    ----------
    afterwards
        Words of a shell that the keeper carries out in the end.
    """

    def __init__(self, cleanup_command: str = "") -> None:
        script = f"echo ready; cat >/dev/null; {cleanup_command}"
        super().__init__(["unshare", "--net", "--uts", "--mount", "sh", "-c", script])

    def run(self, *command: str, stdin: str | None = None) -> None:
        """Carry out a command inside.

        Raises
        ------
        HostsError
            If it fails.
        """
        done = subprocess.run(
            [*self.command_prefix(), *command],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ClusterError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")

    def ip(self, lines: Iterable[str]) -> None:
        """Carry out commands of `ip`, all by one process."""
        self.run("ip", "-batch", "-", stdin="\n".join(lines) + "\n")

    def command_prefix(self, folder: Path | None = None) -> tuple[str, ...]:
        """Tell the words in front of a command that is to run inside, in `folder`."""
        words = ("nsenter", "--target", str(self.pid), "--net", "--uts", "--mount")
        return (*words, f"--wd={folder}", "--") if folder else (*words, "--")


#: The name of the interface that a host has.
HOST_INTERFACE = "eth0"

#: How long the kernel may hold packets back; the queue of a middling switch.
QUEUE_MS = 50

#: A bucket holds what a link sends in so long: a few ticks of the kernel's clock.
BURST_S = 0.004

#: At least a segment as large as the kernel hands them down.
BURST_BYTES = 1 << 16


def set_rate_limit(namespace: Namespace, interface: str, rate_mbit: float | None) -> None:
    """Limit what leaves by an interface; None lifts the limit."""
    if rate_mbit is None:
        return
    namespace.run("tc", "qdisc", "replace", "dev", interface, *tbf_arguments(rate_mbit))


def tbf_arguments(rate_mbit: float) -> tuple[str, ...]:
    """Describe a token bucket to `tc`."""
    burst_bytes = max(BURST_BYTES, int(rate_mbit * 1e6 / 8 * BURST_S))
    return (
        *("root", "tbf", "rate", f"{round(rate_mbit * 1e6)}bit"),
        *("burst", f"{burst_bytes}b", "latency", f"{QUEUE_MS}ms"),
    )


#: In each period a group may use its share and then waits for the next; the kernel's own default
#: of 100 ms would make a training step wait for many times its length.
QUOTA_PERIOD_US = 10_000


class CpuQuota:
    """A control group that may use so many processors' time, once it is held to it.

    Parameters
    ----------
    name
        One of a kind on this machine.

    Raises
    ------
    OSError
        If the kernel or the rights do not allow it.
    """

    def __init__(self, name: str, cpus: float) -> None:
        root, self.is_cgroup_v2 = _cgroup_root()
        self.quota_us = max(1000, round(cpus * QUOTA_PERIOD_US))
        self.folder = root / name
        self.folder.mkdir()
        self.is_applied = False

    def apply(self) -> None:
        """Allow no more than the share from now on; to say it again changes nothing."""
        if self.is_applied:  # the kernel would begin a new period with each writing
            return
        self.is_applied = True
        quota_us = self.quota_us
        if self.is_cgroup_v2:
            (self.folder / "cpu.max").write_text(f"{quota_us} {QUOTA_PERIOD_US}")
        else:
            (self.folder / "cpu.cfs_period_us").write_text(str(QUOTA_PERIOD_US))
            (self.folder / "cpu.cfs_quota_us").write_text(str(quota_us))

    @property
    def command_prefix(self) -> tuple[str, ...]:
        """The words in front of a command that is to have this share and no more."""
        return ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self.folder))

    @property
    def cleanup_command(self) -> str:
        """The words of a shell that remove the group when its last process has ended."""
        tries = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"
        return f"{tries}; do rmdir '{self.folder}' 2>/dev/null && break; sleep 0.1; done; "


def _cgroup_root() -> tuple[Path, bool]:
    """Find the group below which ours are made, and whether it is of the second version."""
    first, second = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    if (second / "cgroup.controllers").exists():
        return second, True
    if not os.access(first, os.W_OK):
        raise OSError("no writable control group for processors")
    return first, False
