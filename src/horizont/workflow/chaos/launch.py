"""The launcher of one chaos case, as a process of its own, because faults happen to it, too.

Its argument is a file with the run, the key of its record, and the folders.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from horizont.config.run import Run
from horizont.errors import INTERRUPTED, USER_ERROR, UserError
from horizont.launchers.execute import RunPaths, execute
from horizont.monitoring.process_control import interrupt_on_signals
from horizont.records.files import read_json


def main(path: Path) -> int:
    """Execute the run and return the exit status."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a parent under `nohup` ignores it
    interrupt_on_signals()
    job = read_json(path)
    paths = RunPaths(Path(job["store"]), Path(job["data_folder"]), {})
    try:
        execute(Run.model_validate(job["run"]), job["key"], paths, lambda done, planned: None)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
