"""Mistakes with data sets of the user: settings that the files cannot fulfil."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import yaml
from PIL import Image
from tests.conftest import change_setting

from horizont.cli import main
from horizont.workflow.paths import Paths

LENET = "workloads.lenet5-cifar10"


@pytest.fixture
def own_images(study_folder: Paths) -> Paths:
    """Write 20 images of each of two classes, of which 4 are tested, and settings that use them."""
    for name in ("blue", "red"):
        folder = study_folder.root / "data" / "own" / "shapes" / name
        folder.mkdir(parents=True)
        for number in range(20):
            Image.new("RGB", (16, 16), name).save(folder / f"{number:02}.png")
    values = yaml.safe_load(study_folder.params.read_text())
    values["data"] |= {"own": {"shapes": {"kind": "image"}}}
    values["datasets"] = ["shapes"]
    values["workloads"]["lenet5-cifar10"]["dataset"] = "shapes"
    values["equivalence"]["batch"] = 8
    values["experiments"] = {"local": values["experiments"]["local"]}
    values["experiments"]["local"] |= {"global_batch": 8, "evaluation": {"examples": 4}}
    study_folder.params.write_text(yaml.safe_dump(values))
    return study_folder


def test_an_evaluation_needs_as_many_images(own_images: Paths, refused: Callable[..., str]) -> None:
    change_setting(own_images, "experiments.local.evaluation", {"examples": 200})
    line = refused("config", "check")
    assert re.search("experiments.local.evaluation.examples: 200 .*at most 4, as", line), line


def test_images_outside_the_classes_are_counted(
    own_images: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = own_images.root / "data" / "own" / "shapes"
    (folder / "red" / "deeper").mkdir()
    (folder / ".hidden").mkdir()
    places = ("top.png", "red/deeper/x.png", ".hidden/x.png", "red/.x.png")
    for name in places:
        Image.new("RGB", (16, 16)).save(folder / name)
    assert main(["prepare", "shapes"]) == 0
    *_, line = capsys.readouterr().out.splitlines()
    assert line == "2 images outside the classes ignored: red/deeper/x.png, top.png"


def test_an_unknown_data_set_lists_those_of_the_user(
    own_images: Paths, refused: Callable[..., str]
) -> None:
    del own_images
    line = refused("prepare", "shape")
    assert re.search("dataset: 'shape' .*ptb, shapes, or .*did you mean 'shapes'", line), line


@pytest.mark.parametrize("parameter", ["dataset=nosuch", "workload=nosuch", "experiment=nosuch"])
def test_a_page_about_nothing_is_not_written(
    study_folder: Paths, refused: Callable[..., str], parameter: str
) -> None:
    assert "'nosuch'" in refused("notebook", "data", "-p", parameter)
    assert not study_folder.executed_notebooks.exists()
