"""What `horizont diff` does: compares, prints the report, and writes it if asked to."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from horizont.errors import UserError
from horizont.modeldiff.compare_models import Options, diff
from horizont.modeldiff.page import page
from horizont.modeldiff.process import Limits
from horizont.modeldiff.script import check_script_path
from horizont.modeldiff.trace import check_trace_path, write_trace

#: The end of the name of a page.
PAGE_SUFFIX = ".html"


def compare_and_print(
    a: str,
    b: str,
    batch: str,
    *,
    args_a: str,
    args_b: str,
    python_a: str,
    python_b: str,
    pairs: Path | None,
    accept: Sequence[str],
    request_s: float,
    memory_gib: float,
    ddp: int,
    script: Path | None,
    time: bool,
    out: Path | None,
    page_path: Path | None,
    trace: Path | None,
) -> int:
    """Compare two models, print the report, and return the exit status."""
    if not request_s > 0:
        raise UserError("--timeout", request_s, "seconds above 0")
    if not memory_gib > 0:
        raise UserError("--memory", memory_gib, "GiB above 0")
    for option, path in {"--json": out, "--page": page_path, "--pairs": pairs}.items():
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise UserError(option, str(path), "a file in a folder that exists")
    if page_path is not None and page_path.suffix != PAGE_SUFFIX:
        raise UserError("--page", str(page_path), f"a name that ends in {PAGE_SUFFIX}")
    if script is not None:
        check_script_path(script)
    if trace is not None:
        check_trace_path(trace)
    limits = Limits(request_s, int(memory_gib * 2**30))
    options = Options(
        python_a=python_a, python_b=python_b, args_a=args_a, args_b=args_b, pairs=pairs,
        accept=tuple(accept), ddp=ddp, script=script, limits=limits,
        time=time or trace is not None,
    )  # fmt: skip
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    terminal = Console(stderr=True)
    hidden = not terminal.is_terminal
    with Progress(*columns, console=terminal, transient=True, disable=hidden) as shown:
        task = shown.add_task("")
        options = replace(options, progress=lambda text: shown.update(task, description=text))
        report = diff(a, b, batch, options)
    print(report)
    if report.script:
        print(report.script)
    if out is not None:
        out.write_text(json.dumps(report.to_json(), indent=1, default=str), encoding="utf-8")
    if page_path is not None:
        page_path.write_text(page(report, shlex.join(["horizont", *sys.argv[1:]])), "utf-8")
        print(f"the page is {page_path}")
    if trace is not None and report.timing is not None:
        write_trace(report.timing, (a, b), trace)
        print(f"the operators of both are in {trace}, for https://ui.perfetto.dev")
    return report.status
