"""DVC without a warning for each frozen stage: the packs of the reference are always frozen."""

from __future__ import annotations

import logging
import sys


def main() -> int:
    """Run DVC with the arguments of this process, and return its exit status."""
    from dvc.cli import main as run_dvc

    logging.getLogger("dvc.repo.reproduce").addFilter(_is_not_of_a_frozen_stage)
    return int(run_dvc(sys.argv[1:]))


def _is_not_of_a_frozen_stage(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("%s is frozen.")


if __name__ == "__main__":
    sys.exit(main())
