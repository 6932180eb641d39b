"""The page on data of the user, followed to the letter."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.conftest import ROOT, change_setting

from horizont.cli import main
from horizont.config.study import read_study
from horizont.workflow.paths import Paths

#: The data sets of the page and their workloads.
EXAMPLES = {"shapes": "lenet-shapes", "tales": "lstm-tales"}


def blocks(language: str) -> list[str]:
    """Return the blocks of code of the numbered steps, without their indentation."""
    page = (ROOT / "docs" / "howto" / "data.md").read_text(encoding="utf-8")
    section = page.partition("\n## Your own images or text\n")[2].partition("\n## ")[0]
    found = re.findall(rf"^   ```{language}\n(.*?)^   ```", section, re.M | re.S)
    return [re.sub(r"^   ", "", block, flags=re.M) for block in found]


def commands_for(dataset: str) -> list[list[str]]:
    """Return the words of the commands; the page has those of the images."""
    text = "".join(blocks("sh")).replace("lenet-shapes", EXAMPLES[dataset])
    return [line.split()[1:] for line in text.replace("shapes", dataset).splitlines()]


def write_data(folder: Path) -> None:
    """Write 40 images of each of three shapes, and a text of 60 kB."""
    random = np.random.default_rng(0)
    for name in ("cross", "round", "square"):
        (folder / "shapes" / name).mkdir(parents=True)
        for number in range(40):
            image = Image.new("L", (28, 28))
            draw, left, top = ImageDraw.Draw(image), *random.integers(2, 12, 2).tolist()
            box = [left, top, left + 12, top + 12]
            if name == "cross":
                draw.line(box, fill=100 + number, width=3)
            else:
                (draw.ellipse if name == "round" else draw.rectangle)(box, fill=100 + number)
            image.save(folder / "shapes" / name / f"{number}.png")
    words = ["the", "a", "king", "ship", "sea", "old", "new", "saw", "left", "found", "and", "of"]
    lines = (" ".join(random.choice(words, 12)) + "." for _ in range(1200))
    (folder / "tales").mkdir()
    (folder / "tales" / "tales.txt").write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture
def study_of_user(study_folder: Paths) -> Paths:
    """Create a study with the data and the profiles of the page."""
    write_data(study_folder.root / "data" / "own")
    for name, settings in zip(EXAMPLES, blocks("yaml"), strict=True):
        (study_folder.root / "profiles" / f"{name}.yaml").write_text(settings)
    return study_folder


@pytest.mark.parametrize("dataset", EXAMPLES)
def test_the_settings_of_the_page_are_complete(
    study_of_user: Paths, capsys: pytest.CaptureFixture[str], dataset: str
) -> None:
    use, prepare, verify, run = commands_for(dataset)
    assert main(use) == 0
    assert read_study(study_of_user.params).profile == dataset
    assert main(prepare) == 0
    *_, line = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{dataset}: own data (own folder), ")
    assert verify == ["verify", EXAMPLES[dataset]]
    assert main([*run, "--dry-run"]) == 0
    plans = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(EXAMPLES[dataset]) for line in plans) == 12
    assert main(["config", "use", "quick"]) == 0
    assert capsys.readouterr().out == "params.yaml now has the settings of the profile quick\n"


@pytest.mark.extended
@pytest.mark.framework("tensorflow", "pytorch", "mxnet", "jax")
@pytest.mark.parametrize("dataset", EXAMPLES)
def test_the_commands_of_the_page_end_with_a_result(
    study_of_user: Paths, capsys: pytest.CaptureFixture[str], dataset: str
) -> None:
    del study_of_user
    for words in commands_for(dataset):
        assert main(words) == 0, words
    output = capsys.readouterr().out
    assert "\nEquivalent: tensorflow, pytorch, mxnet, jax pass all " in output
    assert "100%" in output
    assert "The training is unstable" not in output


def test_data_that_are_limited_are_counted(
    study_of_user: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(commands_for("shapes")[0]) == 0
    change_setting(study_of_user, "data.train_examples", 60)
    change_setting(study_of_user, "data.test_examples", 5)
    capsys.readouterr()
    assert main(["prepare", "shapes"]) == 0
    _, train, test = capsys.readouterr().out.splitlines()
    assert train == "train: the first 60 of 108 images, as data.train_examples limits them"
    assert test == "test: the first 5 of 12 images, as data.test_examples limits them"
