"""The program of the first difference: it shows the difference, and its end when repaired."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from horizont.errors import UserError
from horizont.modeldiff import Options, diff
from horizont.modeldiff.dump import Dump
from horizont.modeldiff.script import check_script_path
from tests.conftest import EXTENDED, cases
from tests.modeldiff.test_frameworks import IMAGES, JAX, KERAS, TORCH


def execute(script: Path) -> tuple[int, str]:
    """Run a script from elsewhere, with an interpreter that has NumPy alone in common with it."""
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, cwd="/"
    )
    assert not done.stderr
    return done.returncode, done.stdout


def repaired(script: Path, text: str, replacement: str) -> tuple[int, str]:
    """Run a script with some code replaced."""
    program = script.read_text(encoding="utf-8")
    assert text in program
    script.write_text(program.replace(text, replacement, 1), encoding="utf-8")
    return execute(script)


@pytest.mark.framework("tensorflow")
@pytest.mark.parametrize("is_swapped", cases((False, True), False))
def test_a_layer_alone_in_both_frameworks(tmp_path: Path, is_swapped: bool) -> None:
    script = tmp_path / "first.py"
    sides = f"{TORCH}:Images", f"{KERAS}:images"
    one, other = reversed(sides) if is_swapped else sides
    report = diff(one, other, IMAGES, Options(script=script))
    assert report.script == f"the first difference alone: python {script}"
    program = script.read_text(encoding="utf-8")
    assert "layer = nn.Conv2d(3, 8, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1)" in program
    assert "layer = keras.layers.Conv2D(filters=8, kernel_size=(3, 3), strides=(2, 2)," in program
    assert "build" not in program
    status, text = execute(script)
    assert (status, text.split(";")[0]) == (1, f"distance {report.outputs[0].distance:.2g}")
    status, text = repaired(script, "padding=(1, 1)", "padding=(0, 0)")
    assert (status, text[:14]) == (1, "the shapes are")
    padded = "layer(nn.functional.pad(torch.as_tensor(value), (0, 1, 0, 1)))"
    assert repaired(script, "layer(torch.as_tensor(value))", padded)[0] == 0


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize(
    ("fault", "quantity", "last", "repair"),
    [
        ("activation='elu'", "input of conv2", "return inputs[0].numpy()", ("'elu'", "'relu'")),
        pytest.param(
            "epsilon=1e-3", "output of norm", "return output.numpy()", ("eps=0.001", "eps=1e-05"),
            marks=EXTENDED,
        ),
        pytest.param(
            "result='softmax'", "result", "return result.numpy()", ("'softmax'", "'none'"),
            marks=EXTENDED,
        ),
    ],
)  # fmt: skip
def test_a_function_is_shown_by_the_model_up_to_it(
    tmp_path: Path, fault: str, quantity: str, last: str, repair: tuple[str, str]
) -> None:
    script = tmp_path / "first.py"
    options = Options(args_b=fault, script=script)
    report = diff(f"{TORCH}:Images", f"{TORCH}:Images", IMAGES, options)
    program = script.read_text(encoding="utf-8")
    assert program.startswith(f'"""The {quantity}')
    assert program.count(last) == 2
    assert len(report.lines()) <= 25
    assert execute(script)[0] == 1
    assert repaired(script, *repair)[0] == 0


@pytest.mark.framework("jax")
@pytest.mark.framework("pytorch")
def test_a_side_without_code_shows_what_was_recorded(tmp_path: Path) -> None:
    script = tmp_path / "first.py"
    diff(
        f"{JAX}:plain", f"{TORCH}:plain", IMAGES, Options(args_a="approximate=True", script=script)
    )
    program = script.read_text(encoding="utf-8")
    assert program.count("this is what was recorded") == 1
    assert execute(script)[0] == 1


@pytest.mark.framework("pytorch")
def test_a_recording_and_a_layer_of_an_own_class(tmp_path: Path) -> None:
    models, script, folder = tmp_path / "models.py", tmp_path / "first.py", tmp_path / "recorded"
    models.write_text(
        """
from torch import nn

class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = Doubled(6, 4)

    def forward(self, x):
        return {"logits": self.dense(x)}
"""
    )
    random = np.random.default_rng(0)
    x, w, b = (random.normal(size=shape) for shape in ((3, 6), (4, 6), (4,)))
    dump = Dump(str(folder), x)
    dump.layer("dense", "dense", {"kernel": w, "bias": b}, x, x @ w.T + b)
    dump.save(x @ w.T + b)
    report = diff(f"dump:{folder}", f"torch:{models}:Model", options=Options(script=script))
    assert report.changed == "B"
    program = script.read_text(encoding="utf-8")
    assert "layer = build().get_submodule('dense')" in program
    assert program.index("what was recorded") < program.index("def b(")
    status, text = execute(script)
    assert status == 1
    assert text.startswith("distance 0.5;")
    models.write_text(models.read_text().replace("2 * super", "super"))
    assert execute(script)[0] == 0


@pytest.mark.framework("pytorch")
def test_there_is_no_script_of_models_that_agree(tmp_path: Path) -> None:
    script = tmp_path / "first.py"
    options = Options(args_b="momentum=0.3", script=script)
    report = diff(f"{TORCH}:Images", f"{TORCH}:Images", IMAGES, options)
    assert report.script == "no script was written: no tensor diverges in evaluation"
    assert not script.exists()


@pytest.mark.parametrize("name", ["first.txt", "missing/first.py"])
def test_the_name_of_a_script_is_checked_first(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"--script: .* ends in \.py"):
        check_script_path(tmp_path / name)
