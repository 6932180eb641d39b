"""The agent of a host: starts processes there, reports on them, and ends them without a launcher.

A request is a frame with a ``kind``, the name of a method of `Requests`, and an ``id`` if it wants
a reply. The agent replies with the same ``id`` and, if the request failed, an ``error``; unasked it
sends the state of its processes and their end.
"""

from __future__ import annotations

import contextlib
import selectors
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from horizont.errors import ConnectionRefused
from horizont.launchers.agent.files import RunFiles, chunks, files_below
from horizont.launchers.agent.sampling import HostSampling
from horizont.launchers.agent.wire import Channel, Message
from horizont.launchers.local import reserve_ports
from horizont.launchers.plan import EVENTS_FILE, ProcessPlan
from horizont.launchers.process import ProcessGroup, terminating
from horizont.monitoring.background import BackgroundMeter

#: Seconds between two reports on running processes, and between two signs of life without any.
STATUS_S, HEARTBEAT_S = 0.2, 1.0


class HostAgent:
    """The connection of an agent, and what runs on its host.

    Parameters
    ----------
    address
        Where processes of this host listen.
    lease_s
        Seconds without a frame from the launcher after which it counts as lost.
    """

    def __init__(self, channel: Channel, files: RunFiles, address: str, lease_s: float) -> None:
        self._channel = channel
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ)
        self._requests = Requests(channel, files, address, self._selector, lease_s)
        self._reported: WeakKeyDictionary[ProcessGroup, Message] = WeakKeyDictionary()
        self._events: WeakKeyDictionary[ProcessGroup, tuple[int, list[Message]]] = (
            WeakKeyDictionary()
        )
        #: Whether an authentic frame was received.
        self.was_served = False

    def serve(self) -> None:
        """Serve the launcher until it ends the session, closes the connection or is lost."""
        heard_s = sent_s = time.monotonic()
        with self._requests:
            while not self._requests.is_over:
                running = self._requests.running
                ready = self._selector.select(STATUS_S if running else HEARTBEAT_S)
                for key, _ in ready:
                    if isinstance(key.fileobj, ProcessGroup):
                        if key.fileobj.exit_status is None:  # no request has just reaped it
                            self._report_end(key.fileobj)
                        continue
                    try:
                        self._requests.answer(*self._channel.receive())
                    except (OSError, ConnectionRefused):
                        return
                    heard_s, self.was_served = time.monotonic(), True
                if time.monotonic() - heard_s > self._requests.lease_s:
                    return
                try:
                    changed = self._report_states(running)
                    if changed or time.monotonic() - sent_s > HEARTBEAT_S:
                        self._channel.send({"kind": "states", "states": changed})
                        sent_s = time.monotonic()
                except OSError:
                    return

    def _report_end(self, process: ProcessGroup) -> None:
        """Report the last state of a process and its end; its launcher asks to reap it."""
        self._selector.unregister(process)
        with contextlib.suppress(OSError):  # the next frame fails, too
            self._channel.send({"kind": "states", "states": self._report_states([process])})
            error = process.last_error()
            self._channel.send({"kind": "ended", "name": process.name, "last_error": error})

    def _report_states(self, processes: list[ProcessGroup]) -> dict[str, Message]:
        """Return what has changed of the processes' states."""
        changed = {}
        for process in processes:
            state = self._state(process)
            if state != self._reported.get(process):
                self._reported[process] = changed[process.name] = state
        return changed

    def _state(self, process: ProcessGroup) -> Message:
        return {
            "step_count": process.step_count(),
            "cpu_s": process.cpu_time_s(),
            "is_stopped": process.is_stopped(),
            "events": self._events_of(process),
        }

    def _events_of(self, process: ProcessGroup) -> list[Message]:
        """Return the events of a process, read again only if the log has grown."""
        log = process.plan.folder / EVENTS_FILE
        size = log.stat().st_size if log.exists() else 0
        read_size, events = self._events.get(process, (0, []))
        if size != read_size:
            events = process.events()
            self._events[process] = (size, events)
        return events


class Requests:
    """What the launcher may ask for: each public method with a frame as its argument.

    As a context it ends all processes and releases what was reserved.
    """

    def __init__(
        self,
        channel: Channel,
        files: RunFiles,
        address: str,
        selector: selectors.BaseSelector,
        lease_s: float,
    ) -> None:
        self.lease_s = lease_s
        self.is_over = False
        self._channel = channel
        self._files = files
        self._address = address
        self._selector = selector  # has the processes whose end is not known yet
        self._processes: dict[str, ProcessGroup] = {}
        self._run = contextlib.ExitStack()
        self._sampling = HostSampling()
        self._meter = BackgroundMeter()

    @property
    def running(self) -> list[ProcessGroup]:
        """The processes that were started and not reaped."""
        return [each for each in self._processes.values() if each.exit_status is None]

    def answer(self, message: Message, body: bytes) -> None:
        """Do what a frame asks for, and reply if it wants a reply; its body is part of it."""
        method = REQUESTS.get(message["kind"])
        if method is None:
            raise ConnectionRefused(f"a request {message['kind']!r}")
        reply: Message = {"kind": "reply", "id": message.get("id")}
        try:
            reply |= method(self, {**message, "body": body}) or {}
        except (OSError, ValueError) as error:  # a UserError is a ValueError
            reply["error"] = str(error)
        if reply["id"] is not None or "error" in reply:
            self._channel.send(reply)

    def clock(self, message: Message) -> Message:
        """Return the clocks of this host."""
        del message
        return {"time_s": time.monotonic(), "unix_s": time.time()}

    def begin(self, message: Message) -> Message:
        """Reserve ports for a run, set its lease, and measure other programs from now on."""
        self.end({})
        self._meter = BackgroundMeter()
        self.lease_s = float(message["lease_s"])
        addresses = [self._address] * int(message["ports"])
        return {"ports": self._run.enter_context(reserve_ports(addresses, 0))}

    def sample(self, message: Message) -> None:
        """Sample this host and its processes until the samples are fetched."""
        folder = self._files.path(message["folder"])
        folder.mkdir(parents=True, exist_ok=True)
        self._sampling.start(folder, float(message["interval_s"]), str(message["device"]))

    def samples(self, message: Message) -> Message:
        """Stop sampling; send the table, and return why the sampler ended and its report."""
        result = self._sampling.stop()
        if result.path is not None:
            self._send_file(message["id"], result.path.name, result.path)
        return {"reason": result.reason, "report": result.report}

    def missing(self, message: Message) -> Message:
        """Return which of the named files this host does not have with this content."""
        digests: dict[str, str] = message["digests"]
        return {"names": [n for n, digest in digests.items() if not self._files.has(n, digest)]}

    def write(self, message: Message) -> None:
        """Write a part of a file."""
        self._files.write(message["name"], message["offset"], message["body"], message["size"])

    def start(self, message: Message) -> Message:
        """Start a process below the folder of the run."""
        folder = self._files.path(message["folder"])
        plan = ProcessPlan(
            name=message["name"],
            host=message["host"],
            argv=tuple(message["argv"]),
            environment=dict(message["environment"]),
            folder=folder,
            job=None,  # its file is written like any other
        )
        log = folder.with_name(f"{folder.name}.log")
        folder.mkdir(parents=True, exist_ok=True)
        process = self._processes[plan.name] = ProcessGroup(plan, log)
        self._selector.register(process, selectors.EVENT_READ)
        self._sampling.add(process)
        return {"pid": process.process.pid}

    def signal(self, message: Message) -> None:
        """Send a signal to a process and its descendants."""
        self._processes[message["name"]].signal(int(message["number"]))

    def reap(self, message: Message) -> Message:
        """Stop what is left of a process and return its exit status."""
        process = self._processes[message["name"]]
        self._forget(process)
        return {"status": process.reap()}

    def last_error(self, message: Message) -> Message:
        """Return the last error that a process has printed."""
        return {"last_error": self._processes[message["name"]].last_error()}

    def outputs(self, message: Message) -> None:
        """Send the files that a process has written so far, and its log."""
        plan, log = self._processes[message["name"]].plan, self._processes[message["name"]].log
        for path in files_below(plan.folder):
            self._send_file(message["id"], str(path.relative_to(plan.folder)), path)
        self._send_file(message["id"], "", log)

    def release(self, message: Message) -> None:
        """Create the start barrier."""
        self._files.path(message["name"]).touch()

    def background(self, message: Message) -> Message:
        """Return the CPU time that other programs have used since the run began."""
        return self._meter.usage(with_quotas=message["with_quotas"])._asdict()

    def ping(self, message: Message) -> None:
        """Do nothing: any frame renews the lease."""
        del message

    def end(self, message: Message) -> None:
        """Stop the processes of a run, remove its files and release its ports."""
        for process in self._processes.values():
            self._forget(process)
        with terminating(list(self._processes.values())):
            self._processes.clear()
        self._sampling.stop()
        self._run.close()
        if name := message.get("folder"):
            self._files.remove(name)

    def close(self, message: Message) -> None:
        """Mark the session as over."""
        del message
        self.is_over = True

    def _forget(self, process: ProcessGroup) -> None:
        """Remove a process from those whose end is awaited: its file descriptor will be closed."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(process)

    def _send_file(self, request: int, name: str, path: Path) -> None:
        """Send a file in parts; one that disappears meanwhile is left out."""
        with contextlib.suppress(FileNotFoundError):
            for offset, content in chunks(path):
                part: dict[str, Any] = {"kind": "part", "id": request, "name": name}
                self._channel.send({**part, "offset": offset}, content)

    def __enter__(self) -> None:
        return

    def __exit__(self, *error: object) -> None:
        self.end({})


Method = Callable[[Requests, Message], Message | None]

#: What a frame may ask for.
REQUESTS: dict[str, Method] = {
    method.__name__: method
    for method in (
        Requests.clock,
        Requests.begin,
        Requests.sample,
        Requests.samples,
        Requests.missing,
        Requests.write,
        Requests.start,
        Requests.signal,
        Requests.reap,
        Requests.last_error,
        Requests.outputs,
        Requests.release,
        Requests.background,
        Requests.ping,
        Requests.end,
        Requests.close,
    )
}
