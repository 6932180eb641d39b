"""The launcher of one chaos case, as a process of its own, because faults happen to it, too.

Its argument is a file with the run, the key of its record, and the folders.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from horizont.config.run import Run
from horizont.errors import UserError
from horizont.launchers.execute import RunPaths, execute
from horizont.records.files import read_json

#: Exit statuses, those of the command line.
REFUSED, INTERRUPTED = 2, 130


def main(path: Path) -> int:
    """Execute the run and return the exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # as the command line does
    job = read_json(path)
    paths = RunPaths(Path(job["store"]), Path(job["data_folder"]), {})
    try:
        execute(Run.model_validate(job["run"]), job["key"], paths, lambda done, planned: None)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
