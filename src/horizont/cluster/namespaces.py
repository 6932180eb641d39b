"""A host of its own: a network namespace, with a name and a table of names.

Namespaces here have no names on the machine. Each is kept by a process that waits for the end of
its standard input, a pipe that the launcher holds. When the launcher is gone, however it went, the
pipe ends, the keeper ends, and with it and the last process inside the kernel takes the namespace
down, its interfaces with it. So nothing has to be swept, and runs cannot collide.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

#: What the system must offer: iproute2 and util-linux.
TOOLS = ("ip", "tc", "unshare", "nsenter", "mount", "hostname")


class HostsError(Exception):
    """Hosts that could not be made, with the reason in a sentence."""


class Keeper:
    """A process that keeps something until its standard input ends, which is a pipe of ours."""

    def __init__(self, words: Sequence[str]) -> None:
        self.keeper = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C is for the launcher
        )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self.keeper.pid

    def wait_kept(self) -> None:
        """Return when it is there.

        Raises
        ------
        HostsError
            If the system does not let us make it.
        """
        assert self.keeper.stdout is not None
        said = self.keeper.stdout.readline().decode().strip()
        if said != "kept":
            rest = self.keeper.stdout.read().decode().strip().splitlines()
            raise HostsError((rest or [said])[-1] or "the keeper ended without a word")

    def release(self) -> None:
        """Let the process go."""
        assert self.keeper.stdin is not None
        self.keeper.stdin.close()

    def wait_released(self, timeout_s: float = 10.0) -> None:
        """Wait for its end."""
        assert self.keeper.stdout is not None
        try:
            self.keeper.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.keeper.kill()
            self.keeper.wait()
        self.keeper.stdout.close()


class Namespace(Keeper):
    """A kept namespace, entered by the number of its keeper; it ends with the last process inside.

    Parameters
    ----------
    afterwards
        Words of a shell that the keeper carries out in the end.
    """

    def __init__(self, afterwards: str = "") -> None:
        script = f"echo kept; cat >/dev/null; {afterwards}"
        super().__init__(["unshare", "--net", "--uts", "--mount", "sh", "-c", script])

    def inside(self, *words: str, stdin: str | None = None) -> None:
        """Carry out a command inside.

        Raises
        ------
        HostsError
            If it fails.
        """
        done = subprocess.run(
            [*self.entrance(), *words], input=stdin, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise HostsError(f"{' '.join(words)}: {(done.stderr or done.stdout).strip()}")

    def ip(self, lines: Iterable[str]) -> None:
        """Carry out commands of `ip`, all by one process."""
        self.inside("ip", "-batch", "-", stdin="\n".join(lines) + "\n")

    def entrance(self, folder: Path | None = None) -> tuple[str, ...]:
        """Tell the words in front of a command that is to run inside, in `folder`."""
        words = ("nsenter", "--target", str(self.pid), "--net", "--uts", "--mount")
        return (*words, f"--wd={folder}", "--") if folder else (*words, "--")
