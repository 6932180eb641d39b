"""Links of a limited rate, by the kernel's token bucket."""

from __future__ import annotations

from horizont.cluster.namespaces import Namespace

#: The name of the interface that a host has.
AT_HOST = "eth0"

#: How long the kernel may hold packets back; the queue of a middling switch.
QUEUE_MS = 50

#: A bucket holds what a link sends in so long: a few ticks of the kernel's clock.
BURST_S = 0.004

#: At least a segment as large as the kernel hands them down.
BURST_BYTES = 1 << 16


def limit(namespace: Namespace, interface: str, rate_mbit: float | None) -> None:
    """Limit what leaves by an interface; None lifts the limit."""
    if rate_mbit is None:
        return
    namespace.inside("tc", "qdisc", "replace", "dev", interface, *bucket(rate_mbit))


def bucket(rate_mbit: float) -> tuple[str, ...]:
    """Describe a token bucket to `tc`."""
    burst_bytes = max(BURST_BYTES, int(rate_mbit * 1e6 / 8 * BURST_S))
    return (
        *("root", "tbf", "rate", f"{round(rate_mbit * 1e6)}bit"),
        *("burst", f"{burst_bytes}b", "latency", f"{QUEUE_MS}ms"),
    )
