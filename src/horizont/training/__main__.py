"""``python -m horizont.training JOB.json``: run one job in this process."""

from __future__ import annotations

import sys

from horizont.training.worker import main

sys.exit(main(sys.argv))
