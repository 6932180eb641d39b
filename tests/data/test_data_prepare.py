"""From a request to a prepared set: sources in order, kept work, clean failure."""

import functools
import http.server
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from horizont.data.catalogue import DATASETS
from horizont.data.preparation import prepare
from horizont.data.prepared import load
from horizont.errors import UserError

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
FEW = {"train_examples": 40, "test_examples": 10}


@pytest.fixture
def ready(tmp_path):
    """Return prepare() with folders in tmp_path filled in."""
    return functools.partial(prepare, raw_dir=tmp_path / "raw", out_dir=tmp_path / "prepared")


def folders(path):
    return sorted(str(found.relative_to(path)) for found in path.iterdir())


@pytest.mark.parametrize("name", DATASETS)
def test_synthetic_never_reads_the_real_set(small, ready, tmp_path, name):
    small(name)
    about = ready(name, "synthetic", **FEW)
    assert (about.source, about.origin, about.seed) == ("synthetic", "generated", 0)
    best = about.best_perplexity if about.kind == "text" else about.best_accuracy
    assert best is not None
    assert load(tmp_path / "prepared" / name, verify=True).description == about


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("source", ["available", "real"])
def test_what_is_already_there_is_taken(small, ready, tmp_path, name, source):
    made = small(name)
    about = ready(name, source)
    assert (about.source, about.origin) == ("real", "raw folder")
    assert about.best_accuracy is about.best_perplexity is about.seed is None
    data = load(tmp_path / "prepared" / name, verify=True)
    if name != "ptb":
        np.testing.assert_array_equal(data.train_images, made.content.arrays["train_images"])
        assert len(about.mean) == len(about.std) == made.info.shape[0]


def test_limits_take_the_first_examples(small, ready, tmp_path):
    made = small("cifar10")
    about = ready("cifar10", "real", train_examples=25, test_examples=7)
    assert about.splits == {"train": 25, "test": 7}
    data = load(tmp_path / "prepared" / "cifar10")
    np.testing.assert_array_equal(data.train_images, made.content.arrays["train_images"][:25])
    np.testing.assert_array_equal(data.test_labels, made.content.arrays["test_labels"][:7])


@pytest.mark.parametrize("inside", ["", "cifar10"])
def test_a_mirror_is_taken_and_left_alone(small, ready, tmp_path, inside):
    made = small("cifar10")
    mirror = tmp_path / "mirror"
    (mirror / inside).mkdir(parents=True)
    shutil.move(made.archive(), mirror / inside)
    about = ready("cifar10", "available", mirror=mirror)
    assert (about.source, about.origin) == ("real", "mirror")
    assert len(list(mirror.rglob("*.gz"))) == 1


def test_what_is_there_comes_before_the_mirror_and_the_mirror_before_debian(
    small, ready, tmp_path, monkeypatch
):
    made = small("fashion-mnist")
    info = replace(made.info, debian_folder=str(shutil.copytree(made.folder, tmp_path / "debian")))
    monkeypatch.setitem(DATASETS, info.name, info)
    mirror = shutil.copytree(made.folder, tmp_path / "mirror")
    origins = []
    for gone in (None, made.folder, mirror):
        if gone is not None:
            shutil.rmtree(gone)
            shutil.rmtree(tmp_path / "prepared")
            gone.mkdir()
        origins.append(ready(info.name, "available", mirror=mirror).origin)
    assert origins == ["raw folder", "mirror", "debian"]


def test_a_mirror_without_the_set_leaves_the_stand_in(ready, tmp_path):
    assert ready("cifar10", "available", mirror=tmp_path, **FEW).source == "synthetic"


def test_damage_is_reported_and_never_papered_over_with_the_stand_in(small, ready, tmp_path):
    made = small("cifar10")
    made.archive().write_bytes(made.archive().read_bytes()[:-100])
    with pytest.raises(UserError, match=r"cifar-10-python\.tar\.gz: .*refused"):
        ready("cifar10", "available")
    assert not (tmp_path / "prepared").exists()


def test_a_whole_matching_folder_is_kept(ready, tmp_path):
    first = ready("fashion-mnist", "synthetic", **FEW)
    file = tmp_path / "prepared" / "fashion-mnist" / "about.json"
    before = file.stat()
    assert ready("fashion-mnist", "synthetic", **FEW) == first
    assert file.stat() == before


@pytest.mark.parametrize(
    "change", [{"train_examples": 41}, {"test_examples": 9}, {"seed": 1}], ids=str
)
def test_another_request_is_built_anew(ready, change):
    first = ready("fashion-mnist", "synthetic", **FEW)
    second = ready("fashion-mnist", "synthetic", **{**FEW, **change})
    assert second != first
    assert second.sha256 != first.sha256


def test_a_damaged_prepared_folder_is_built_anew(ready, tmp_path):
    first = ready("fashion-mnist", "synthetic", **FEW)
    array = tmp_path / "prepared" / "fashion-mnist" / "train_images.npy"
    array.write_bytes(array.read_bytes()[:-1] + b"\0")
    assert ready("fashion-mnist", "synthetic", **FEW) == first
    load(tmp_path / "prepared" / "fashion-mnist", verify=True)


def test_the_stand_in_gives_way_when_the_real_set_appears_and_the_real_one_stays(
    small, ready, tmp_path
):
    made = small("cifar10")
    away = tmp_path / "away"
    made.folder.rename(away)
    assert ready("cifar10", "available").source == "synthetic"
    away.rename(made.folder)
    assert ready("cifar10", "available").source == "real"
    shutil.rmtree(made.folder)
    assert ready("cifar10", "available").source == "real"
    assert ready("cifar10", "real").source == "real"
    assert ready("cifar10", "synthetic").source == "synthetic"


@pytest.mark.parametrize("when", ["generating train", "generating test", "writing"])
@pytest.mark.parametrize("old", [False, True])
def test_an_interrupt_leaves_what_was_there(ready, tmp_path, when, old):
    if old:
        ready("fashion-mnist", "synthetic", seed=1, **FEW)

    def interrupt(step, share):
        if step.startswith(when) and share < 1.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ready("fashion-mnist", "synthetic", progress=interrupt, **FEW)
    if old:
        assert load(tmp_path / "prepared" / "fashion-mnist", verify=True).description.seed == 1
        assert folders(tmp_path / "prepared") == ["fashion-mnist"]
    else:
        assert not (tmp_path / "prepared").exists()


def test_an_interrupt_while_writing_leaves_nothing(ready, tmp_path, monkeypatch):
    save, calls = np.save, []

    def interrupt(*args, **options):
        calls.append(args)
        save(*args, **options)
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(np, "save", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ready("fashion-mnist", "synthetic", **FEW)
    assert folders(tmp_path / "prepared") == []


def test_progress_tells_steps_and_shares(ready):
    told = []
    ready("fashion-mnist", "synthetic", progress=lambda *step: told.append(step), **FEW)
    assert [step for step, _ in told][:2] == ["generating train", "generating test"]
    assert all(0 <= share <= 1 for _, share in told)
    assert told[-1][1] == 1.0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "mnist"}, "dataset"),
        ({"source": "guess"}, "source"),
        ({"train_examples": 0}, "train_examples"),
        ({"train_examples": 60_001}, "train_examples"),
        ({"test_examples": -1}, "test_examples"),
        ({"seed": -1}, "seed"),
        ({"source": "available", "mirror": Path("/nowhere/at/all")}, "mirror"),
    ],
)
def test_impossible_requests_are_refused_before_anything_is_made(ready, tmp_path, change, field):
    request = {"name": "fashion-mnist", "source": "synthetic", **change}
    with pytest.raises(UserError) as caught:
        ready(**request)
    assert caught.value.field == field
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def place(small, tmp_path, monkeypatch):
    """Serve the archives of a small set as its official place would."""
    made = small("fashion-mnist")
    made.folder.rename(tmp_path / "official")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_args):
            pass

    handler = functools.partial(Quiet, directory=str(tmp_path / "official"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    base = f"http://127.0.0.1:{server.server_port}/"
    files = tuple(replace(file, address=base + file.name) for file in made.info.files)
    monkeypatch.setitem(DATASETS, "fashion-mnist", replace(made.info, files=files))
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    yield tmp_path / "official"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_official_place_is_asked_only_for_the_real_set(place, ready, tmp_path):
    assert ready("fashion-mnist", "available").source == "synthetic"
    assert not (tmp_path / "raw" / "fashion-mnist").exists()
    told = []
    about = ready("fashion-mnist", "real", progress=lambda *step: told.append(step))
    assert (about.source, about.origin) == ("real", "official")
    assert len(folders(tmp_path / "raw" / "fashion-mnist")) == 4
    shares = [share for step, share in told if step == "fetching train-images-idx3-ubyte.gz"]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] == 1.0
    assert ready("fashion-mnist", "available", **FEW).origin == "raw folder"


def test_a_tampered_download_is_refused_and_removed(place, ready, tmp_path):
    file = place / "t10k-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(UserError, match="t10k-images") as caught:
        ready("fashion-mnist", "real")
    assert "hash" in str(caught.value)
    kept = folders(tmp_path / "raw" / "fashion-mnist")
    assert kept == ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"]
    assert not (tmp_path / "prepared").exists()


def test_an_interrupted_download_leaves_no_half_file_and_goes_on(place, ready, tmp_path):
    def interrupt(step, _share):
        if "t10k-images" in step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ready("fashion-mnist", "real", progress=interrupt)
    assert len(folders(tmp_path / "raw" / "fashion-mnist")) == 2
    told = []
    ready("fashion-mnist", "real", progress=lambda *step: told.append(step))
    assert not [step for step, _ in told if step.startswith("fetching train")]


def test_no_network_is_a_user_error_that_says_what_to_do(place, ready):
    (place / "train-images-idx3-ubyte.gz").unlink()
    with pytest.raises(UserError, match="or a mirror folder that has it"):
        ready("fashion-mnist", "real")


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="Debian's dataset-fashion-mnist is not installed")
def test_the_real_fashion_mnist_of_debian(ready, tmp_path):
    about = ready("fashion-mnist", "available")
    assert (about.source, about.origin) == ("real", "debian")
    assert about.mean == pytest.approx((0.2860,), abs=5e-5)  # as published with many loaders
    assert about.std == pytest.approx((0.3530,), abs=5e-5)
    data = load(tmp_path / "prepared" / "fashion-mnist")
    assert np.bincount(data.train_labels).tolist() == [6000] * 10
    assert data.test_labels[:5].tolist() == [9, 2, 1, 1, 6]
