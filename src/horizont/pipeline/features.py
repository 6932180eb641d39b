"""Asking the installed frameworks what they offer, each in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

from horizont.spec import FRAMEWORKS

MODULE = "horizont.frameworks.features"
DEADLINE_S = 120.0

#: By these names its versions are asked to print what they compute.
TELLING = ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE")


def installed_features() -> dict[str, Any]:
    """Ask every framework for its features.

    Returns
    -------
    dict
        ``date`` of asking, and by framework what it answered: ``version`` and ``features``, or
        ``failed`` with the reason.
    """
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as side_by_side:
        answers = dict(zip(FRAMEWORKS, side_by_side.map(_asked, FRAMEWORKS), strict=True))
    return {"date": date.today().isoformat(), **answers}


def _asked(framework: str) -> dict[str, Any]:
    command = [sys.executable, "-m", MODULE, framework]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
            env={**os.environ, **dict.fromkeys(TELLING, "1")},
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer within {DEADLINE_S:g} s"}
    lines = done.stdout.splitlines()
    answers = [line for line in lines if line.startswith('{"framework"')]
    if done.returncode or not answers:
        last = (done.stderr.strip() or "no word").splitlines()[-1]
        return {"failed": last}
    answered: dict[str, Any] = json.loads(answers[-1])
    answered["features"]["onednn"] = _onednn(lines)
    return answered


def _onednn(lines: list[str]) -> dict[str, Any]:
    """Find out from what oneDNN says of itself which passes of a convolution it computed."""
    said = [line for line in lines if "_verbose," in line and ",convolution," in line]
    passes = [name for name in ("forward", "backward") if any(name in line for line in said)]
    asked = "a convolution, forward and backward, with ONEDNN_VERBOSE=1"
    return {"has": bool(passes), "asked": asked, "passes": passes}
