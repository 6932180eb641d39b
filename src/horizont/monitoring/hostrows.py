"""The rows that a sample has about its host: one for each interface and one for the whole."""

from __future__ import annotations

from horizont.monitoring.host import HostReader, Traffic
from horizont.monitoring.rows import Head, Row


def host_rows(head: Head, host: HostReader, missed: int, processes: int | None) -> list[Row]:
    """Read the host and return its rows.

    Parameters
    ----------
    head
        What all rows of the sample share.
    host
        The counters.
    missed
        Ticks left out just before this one.
    processes
        Processes on the host if they have just been counted. The disks, as dear to read as all
        the rest together, are read then only.
    """
    traffic = host.traffic()
    read, written = (None, None) if processes is None else host.disk()
    rows = interface_rows(head, traffic)
    whole = Row(
        *head,
        "host",
        head.host,
        **host.read()._asdict(),
        read_bytes=read,
        write_bytes=written,
        sent_bytes=sum(each.sent_bytes for each in traffic.values()) if traffic else None,
        received_bytes=sum(each.received_bytes for each in traffic.values()) if traffic else None,
        processes=processes,
        missed=missed,
    )
    return [*rows, whole]


def interface_rows(head: Head, traffic: dict[str, Traffic]) -> list[Row]:
    """Return a row for each interface of a host."""
    return [Row(*head, "interface", name, **bytes_._asdict()) for name, bytes_ in traffic.items()]
