"""What the kernel of a notebook that is executed headlessly runs first."""

from __future__ import annotations

import atexit

from horizont.monitoring.process_control import collect_rarely

#: Limit of the time in which the thread of the control channel ends once shutdown was requested.
_CONTROL_S = 2.0


def prepare_kernel() -> None:
    """Collect garbage rarely, and exit in order.

    At its exit, ipykernel stops the thread that publishes outputs, and then waits for that of the
    control channel. If this one still flushes the outputs, it waits for the other in vain, for ten
    seconds for each stream. So it has to end first, as it does once it has answered the request.
    """
    collect_rarely()
    atexit.register(_end_control_thread)  # called before the function that ipykernel registered


def _end_control_thread() -> None:
    from ipykernel.kernelapp import IPKernelApp

    if (thread := IPKernelApp.instance().control_thread) is not None:
        thread.join(_CONTROL_S)
