"""DVC without a warning for each frozen stage: the packs of the reference are always frozen."""

from __future__ import annotations

import logging
import sys


def _is_not_of_a_frozen_stage(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("%s is frozen.")


if __name__ == "__main__":
    from dvc.cli import main

    logging.getLogger("dvc.repo.reproduce").addFilter(_is_not_of_a_frozen_stage)
    sys.exit(main(sys.argv[1:]))
