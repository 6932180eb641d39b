"""``python -m horizont.worker JOB.json``: do one job in this process."""

from __future__ import annotations

import sys

from horizont.worker.main import main

sys.exit(main(sys.argv))
