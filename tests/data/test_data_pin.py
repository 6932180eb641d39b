"""data.dvc agrees with the catalogue, and DVC can read it."""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from ruamel.yaml import YAML

from horizont.data.catalogue import DATASETS

PIN = Path(__file__).parents[2] / "data.dvc"


def test_the_pin_agrees_with_the_catalogue():
    pin = yaml.safe_load(PIN.read_text())
    (out,) = pin["outs"]
    assert (out["path"], out["hash"], out["cache"]) == ("data/raw", "md5", False)
    pinned = {(entry["relpath"], entry["md5"], entry["size"]) for entry in out["files"]}
    assert len(pinned) == len(out["files"])
    assert pinned == {
        (f"{info.name}/{file.name}", file.md5, file.size)
        for info in DATASETS.values()
        for file in info.files
    }
    assert pin["meta"] == {
        info.name: {"addresses": [file.url for file in info.files], "licence": info.licence}
        for info in DATASETS.values()
    }


def test_dvc_would_write_the_same_pin():
    # Some commands of DVC rewrite the file: that must not change it.
    text = PIN.read_text()
    stream = io.StringIO()
    yaml_as_dvc = YAML()
    yaml_as_dvc.default_flow_style = False
    yaml_as_dvc.dump(yaml_as_dvc.load(text), stream)
    assert stream.getvalue() == text


def test_dvc_reads_the_pin_and_reports_missing_archives(tmp_path):
    shutil.copy(PIN, tmp_path)
    dvc = [sys.executable, "-m", "dvc"]
    environment = {**os.environ, "DVC_NO_ANALYTICS": "1"}
    run = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    subprocess.run([*dvc, "init", "--no-scm", "-q"], check=True, **run)
    status = subprocess.run([*dvc, "status", "data.dvc"], check=True, **run)
    assert "deleted" in status.stdout
    assert "data/raw" in status.stdout
