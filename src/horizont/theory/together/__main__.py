"""``python -m horizont.theory.together FOLDER RANK ADDRESS...``: take part in the exercises."""

from __future__ import annotations

import sys
from pathlib import Path

from horizont.theory.together.member import take_part_in_all

take_part_in_all(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
