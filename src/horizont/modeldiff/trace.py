"""A training step of both sides in one file, operator by operator, for Perfetto."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from horizont.errors import UserError
from horizont.modeldiff.timing import Timing

#: A file with the second suffix is compressed.
SUFFIXES = (".json", ".json.gz")


def check_trace_path(path: Path) -> None:
    """Refuse a file that no viewer would open.

    Raises
    ------
    UserError
        If the name has another suffix, or there is no such folder.
    """
    if not path.name.endswith(SUFFIXES) or not path.parent.is_dir():
        allowed = f"a name that ends in {' or '.join(SUFFIXES)}, in a folder that exists"
        raise UserError("--trace", str(path), allowed)


def write_trace(timing: Timing, targets: tuple[str, str], path: Path) -> None:
    """Write the profiled steps in the Trace Event Format, a process for each side.

    Both steps start at zero, so that they lie under each other. The threads of a side are numbered
    in the order in which they start.
    """
    events: list[dict[str, Any]] = []
    for pid, (profile, target) in enumerate(zip(timing.profiles, targets, strict=True), start=1):
        name = {"name": f"{profile.label}: {target}"}
        events.append({"ph": "M", "pid": pid, "name": "process_name", "args": name})
        calls = sorted(profile.calls, key=lambda call: call.start_s)
        threads = {call.thread: 0 for call in calls}
        threads = {thread: number for number, thread in enumerate(threads, start=1)}
        for call in calls:
            events.append(
                {
                    "ph": "X",
                    "pid": pid,
                    "tid": threads[call.thread],
                    "name": call.name,
                    "ts": round((call.start_s - calls[0].start_s) * 1e6, 3),
                    "dur": round(call.total_s * 1e6, 3),
                }
            )
    text = json.dumps({"traceEvents": events}).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
