"""The how-to pages name files, commands and stages that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from horizont.cli import build_parser

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "howto").glob("*.md"))

#: What the reader is told to make.
MADE = {"src/horizont/networks/mlp.py"}

#: The top of a path in this repository.
TOPS = r"(?:src|tests|profiles|notebooks|docs|tools|reports/plots|\.dvc)/"


def code_of(page: Path) -> str:
    """Join what a page sets as code: words in backticks, and blocks."""
    text = page.read_text()
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.M | re.S)
    return "\n".join([*re.findall(r"`([^`\n]+)`", text), *blocks])


def test_there_is_a_page_for_everything_promised() -> None:
    named = re.findall(r"\]\((\w+\.md)\)", (ROOT / "docs/howto/index.md").read_text())
    assert {*named, "index.md"} == {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_named_file_is_there(page: Path) -> None:
    named = set(re.findall(rf"(?<![\w/.]){TOPS}[\w./-]*", code_of(page)))
    missing = [name for name in named - MADE if not (ROOT / name.rstrip(".")).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_named_command_is_there(page: Path) -> None:
    code = code_of(page)
    (verbs,) = build_parser()._subparsers._group_actions  # type: ignore[union-attr]
    assert set(re.findall(r"\bhorizont ([a-z]+)\b", code)) <= set(verbs.choices)
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"\bmake ([a-z]+)\b", code)) <= targets
    profiles = {path.stem for path in (ROOT / "profiles").glob("*.yaml")}
    assert set(re.findall(r"(?:horizont profile |PROFILE=)([\w-]+)", code)) <= profiles
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    assert set(re.findall(r"\b-s (\w+)@", code)) <= set(stages)


def test_a_missing_file_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Look at `src/horizont/nowhere.py`.\n\n```sh\nhorizont fly tests/none\n```\n")
    with pytest.raises(AssertionError, match=r"nowhere"):
        test_each_named_file_is_there(page)
    with pytest.raises(AssertionError, match=r"fly"):
        test_each_named_command_is_there(page)
