"""``python -m horizont.frameworks.calculus FRAMEWORK FOLDER``: answer the questions there."""

from __future__ import annotations

import sys
from pathlib import Path

from horizont.frameworks.calculus.answer import answer_all

answer_all(sys.argv[1], Path(sys.argv[2]))
