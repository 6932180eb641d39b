"""Create the environments of published packages whose models `tests/modeldiff` compares.

``python tools/pairs.py``, or `make pairs`. Each is below `.venv/pairs`, or below the folder that
``HORIZONT_PAIRS`` names. Packages that would replace the CPU build of a framework are installed
without what they depend on. pip finds that build as for `make env` (``PIP_FIND_LINKS``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("HORIZONT_PAIRS", ROOT / ".venv" / "pairs"))

#: Packages of each environment, and those that are installed alone.
PAIRS = {
    "pytorch": (
        (
            "torch==2.13.0+cpu",
            "numpy==2.4.6",
            "onnx==1.23.2",
            "onnxscript==0.7.2",
            "pillow==13.0.0",
            "transformers==4.57.6",
        ),
        ("torchvision==0.28.0", "timm==1.0.31", "efficientnet-pytorch==0.7.1"),
    ),
    "padiff": (
        (
            "torch==2.13.0+cpu",
            "paddlepaddle==3.3.1",
            "numpy==2.4.6",
            "pyyaml==6.0.4",
            "rich==15.0.0",
        ),
        ("torchvision==0.28.0", "padiff==0.2.0"),
    ),
    "keras-torch": (("torch==2.13.0+cpu", "numpy==2.4.6", "keras==3.15.1"), ()),
    "keras-jax": (("jax==0.10.2", "numpy==2.4.6", "keras==3.15.1"), ()),
    "flax": (("jax==0.10.2", "numpy==2.4.6", "flax==0.12.8", "transformers==4.57.6"), ()),
    "tf-keras": (
        ("tensorflow-cpu==2.21.0", "transformers==4.57.6", "pillow==13.0.0"),
        ("tf_keras==2.21.0",),
    ),
    "keras-tensorflow": (("tensorflow-cpu==2.21.0", "keras==3.15.1"), ("kimm==0.2.5",)),
}


def create(folder: Path, packages: Sequence[str], alone: Sequence[str] = ()) -> None:
    """Create an environment, unless it exists with these packages."""
    marker = folder / ".created-from"
    wanted = "\n".join([*packages, *alone])
    if marker.exists() and marker.read_text(encoding="utf-8") == wanted:
        return
    print(f"creating {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *packages], check=True)
    if alone:
        subprocess.run([*pip, "--no-deps", *alone], check=True)
    marker.write_text(wanted, encoding="utf-8")


def main() -> None:
    """Create all environments of published packages."""
    for name, (packages, alone) in PAIRS.items():
        create(FOLDER / name, packages, alone)


if __name__ == "__main__":
    sys.exit(main())
