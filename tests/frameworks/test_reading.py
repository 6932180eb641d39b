"""Every reader gives the batches that the pipeline from memory gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import run_in_framework

from horizont.config.system import FRAMEWORKS, framework_info, installed_version
from horizont.data.files import write_files_if_missing
from horizont.data.prepared import ImageData, load

pytestmark = pytest.mark.framework


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_readers_give_the_same_batches(framework: str, small_cifar: Path, tmp_path: Path) -> None:
    if installed_version(framework) is None:
        pytest.skip(f"{framework} is not installed")
    data = load(small_cifar)
    assert isinstance(data, ImageData)
    folder = write_files_if_missing(data, tmp_path / "files")
    words = ("-m", "tests.frameworks.reading", framework, small_cifar, folder)
    found = json.loads(run_in_framework(framework, *words).splitlines()[-1])
    assert {name.split(" {")[0] for name in found} == set(framework_info(framework).readers)
    # Transforms of an image divide where those of a batch multiply.
    rounding = {name: 1e-6 if "per image" in name else 0.0 for name in found}
    assert {name: by for name, by in found.items() if by > rounding[name]} == {}
