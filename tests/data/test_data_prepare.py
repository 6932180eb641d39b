"""Preparation: the order of the sources, reuse of complete work, and clean failures."""

import functools
import http.server
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pooch
import pytest

from horizont.data import synthetic
from horizont.data.catalogue import DATASETS
from horizont.data.preparation import prepare
from horizont.data.prepared import load
from horizont.errors import UserError

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
FEW = {"train_examples": 40, "test_examples": 10}


@pytest.fixture
def prepare_set(tmp_path):
    """Return prepare() with folders in tmp_path bound."""
    return functools.partial(prepare, raw_dir=tmp_path / "raw", out_dir=tmp_path / "prepared")


def folders(path):
    return sorted(str(found.relative_to(path)) for found in path.iterdir())


@pytest.mark.parametrize("name", DATASETS)
def test_synthetic_never_reads_the_real_set(small, prepare_set, tmp_path, name):
    small(name)
    description = prepare_set(name, "synthetic", **FEW)
    assert (description.source, description.origin, description.seed) == (
        "synthetic",
        "generated",
        0,
    )
    best = description.best_perplexity if description.kind == "text" else description.best_accuracy
    assert best is not None
    assert load(tmp_path / "prepared" / name, verify=True).description == description


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("source", ["available", "real"])
def test_files_in_the_raw_folder_are_used(small, prepare_set, tmp_path, name, source):
    dataset = small(name)
    description = prepare_set(name, source)
    assert (description.source, description.origin) == ("real", "raw folder")
    assert description.best_accuracy is description.best_perplexity is description.seed is None
    data = load(tmp_path / "prepared" / name, verify=True)
    if name != "ptb":
        np.testing.assert_array_equal(data.train_images, dataset.content.arrays["train_images"])
        assert len(description.mean) == len(description.std) == dataset.info.shape[0]


def test_limits_select_the_first_examples(small, prepare_set, tmp_path):
    dataset = small("cifar10")
    description = prepare_set("cifar10", "real", train_examples=25, test_examples=7)
    assert description.splits == {"train": 25, "test": 7}
    data = load(tmp_path / "prepared" / "cifar10")
    np.testing.assert_array_equal(data.train_images, dataset.content.arrays["train_images"][:25])
    np.testing.assert_array_equal(data.test_labels, dataset.content.arrays["test_labels"][:7])


@pytest.mark.parametrize("inside", ["", "cifar10"])
def test_a_mirror_is_used_and_not_changed(small, prepare_set, tmp_path, inside):
    dataset = small("cifar10")
    mirror = tmp_path / "mirror"
    (mirror / inside).mkdir(parents=True)
    shutil.move(dataset.archive(), mirror / inside)
    description = prepare_set("cifar10", "available", mirror=mirror)
    assert (description.source, description.origin) == ("real", "mirror")
    assert len(list(mirror.rglob("*.gz"))) == 1


def test_order_of_the_local_sources(small, prepare_set, tmp_path, monkeypatch):
    dataset = small("fashion-mnist")
    info = replace(
        dataset.info, debian_folder=str(shutil.copytree(dataset.folder, tmp_path / "debian"))
    )
    monkeypatch.setitem(DATASETS, info.name, info)
    mirror = shutil.copytree(dataset.folder, tmp_path / "mirror")
    origins = []
    for gone in (None, dataset.folder, mirror):
        if gone is not None:
            shutil.rmtree(gone)
            shutil.rmtree(tmp_path / "prepared")
            gone.mkdir()
        origins.append(prepare_set(info.name, "available", mirror=mirror).origin)
    assert origins == ["raw folder", "mirror", "debian"]


def test_a_mirror_without_the_set_is_skipped(prepare_set, tmp_path):
    assert prepare_set("cifar10", "available", mirror=tmp_path, **FEW).source == "synthetic"


def test_damage_is_reported_and_not_replaced_by_the_stand_in(small, prepare_set, tmp_path):
    dataset = small("cifar10")
    dataset.archive().write_bytes(dataset.archive().read_bytes()[:-100])
    with pytest.raises(UserError, match=r"cifar-10-python\.tar\.gz: .*refused"):
        prepare_set("cifar10", "available")
    assert not (tmp_path / "prepared").exists()


def test_a_complete_matching_folder_is_reused(prepare_set, tmp_path):
    first = prepare_set("fashion-mnist", "synthetic", **FEW)
    file = tmp_path / "prepared" / "fashion-mnist" / "description.json"
    before = file.stat()
    assert prepare_set("fashion-mnist", "synthetic", **FEW) == first
    assert file.stat() == before


@pytest.mark.parametrize(
    "change", [{"train_examples": 41}, {"test_examples": 9}, {"seed": 1}], ids=str
)
def test_another_request_is_rebuilt(prepare_set, change):
    first = prepare_set("fashion-mnist", "synthetic", **FEW)
    second = prepare_set("fashion-mnist", "synthetic", **{**FEW, **change})
    assert second != first
    assert second.sha256 != first.sha256


def test_a_damaged_prepared_folder_is_rebuilt(prepare_set, tmp_path):
    first = prepare_set("fashion-mnist", "synthetic", **FEW)
    array = tmp_path / "prepared" / "fashion-mnist" / "train_images.npy"
    array.write_bytes(array.read_bytes()[:-1] + b"\0")
    assert prepare_set("fashion-mnist", "synthetic", **FEW) == first
    load(tmp_path / "prepared" / "fashion-mnist", verify=True)


def test_a_real_set_replaces_the_stand_in_but_not_the_reverse(small, prepare_set, tmp_path):
    dataset = small("cifar10")
    away = tmp_path / "away"
    dataset.folder.rename(away)
    assert prepare_set("cifar10", "available").source == "synthetic"
    away.rename(dataset.folder)
    assert prepare_set("cifar10", "available").source == "real"
    shutil.rmtree(dataset.folder)
    assert prepare_set("cifar10", "available").source == "real"
    assert prepare_set("cifar10", "real").source == "real"
    assert prepare_set("cifar10", "synthetic").source == "synthetic"


@pytest.fixture(params=[False, True], ids=["nothing before", "a set before"])
def earlier(request, prepare_set, tmp_path):
    """Prepare a set or none; return a check that an interrupt changes nothing."""
    if request.param:
        prepare_set("fashion-mnist", "synthetic", seed=1, **FEW)

    def check():
        if request.param:
            assert load(tmp_path / "prepared" / "fashion-mnist", verify=True).description.seed == 1
        found = folders(tmp_path / "prepared") if (tmp_path / "prepared").exists() else []
        assert found == ["fashion-mnist"] * request.param

    return check


@pytest.mark.parametrize("split", ["train", "test"])
def test_an_interrupt_while_generating_leaves_the_earlier_set(
    earlier, prepare_set, monkeypatch, split
):
    generate = synthetic.generate_images

    def interrupt(distribution, generated, count):
        if generated == split:
            raise KeyboardInterrupt
        return generate(distribution, generated, count)

    monkeypatch.setattr(synthetic, "generate_images", interrupt)
    with pytest.raises(KeyboardInterrupt):
        prepare_set("fashion-mnist", "synthetic", **FEW)
    earlier()


def test_an_interrupt_while_writing_leaves_the_earlier_set(earlier, prepare_set, monkeypatch):
    save, calls = np.save, []

    def interrupt(*args, **options):
        calls.append(args)
        save(*args, **options)
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(np, "save", interrupt)
    with pytest.raises(KeyboardInterrupt):
        prepare_set("fashion-mnist", "synthetic", **FEW)
    earlier()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "mnist"}, "dataset"),
        ({"train_examples": 0}, "train_examples"),
        ({"train_examples": 60_001}, "train_examples"),
        ({"test_examples": -1}, "test_examples"),
        ({"source": "available", "mirror": Path("/nowhere/at/all")}, "mirror"),
    ],
)
def test_invalid_requests_are_refused_before_anything_is_written(
    prepare_set, tmp_path, change, field
):
    request = {"name": "fashion-mnist", "source": "synthetic", **change}
    with pytest.raises(UserError) as caught:
        prepare_set(**request)
    assert caught.value.field == field
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def official_source(small, tmp_path, monkeypatch):
    """Serve the archives of a small set like its official source."""
    dataset = small("fashion-mnist")
    dataset.folder.rename(tmp_path / "official")

    class SilentHandler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_args):
            pass

    handler = functools.partial(SilentHandler, directory=str(tmp_path / "official"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    base = f"http://127.0.0.1:{server.server_port}/"
    files = tuple(replace(file, url=base + file.name) for file in dataset.info.files)
    monkeypatch.setitem(DATASETS, "fashion-mnist", replace(dataset.info, files=files))
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    yield tmp_path / "official"
    server.shutdown()
    server.server_close()
    thread.join()


def test_downloads_are_for_the_real_set_only(official_source, prepare_set, tmp_path):
    assert prepare_set("fashion-mnist", "available").source == "synthetic"
    assert not (tmp_path / "raw" / "fashion-mnist").exists()
    description = prepare_set("fashion-mnist", "real")
    assert (description.source, description.origin) == ("real", "official")
    assert len(folders(tmp_path / "raw" / "fashion-mnist")) == 4
    assert prepare_set("fashion-mnist", "available", **FEW).origin == "raw folder"


def test_a_tampered_download_is_refused_and_removed(official_source, prepare_set, tmp_path):
    file = official_source / "t10k-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(UserError, match="t10k-images") as caught:
        prepare_set("fashion-mnist", "real")
    assert "hash" in str(caught.value)
    remaining = folders(tmp_path / "raw" / "fashion-mnist")
    assert remaining == ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"]
    assert not (tmp_path / "prepared").exists()


def test_an_interrupted_download_leaves_no_partial_file_and_is_continued(
    official_source, prepare_set, tmp_path, monkeypatch
):
    download, fetched = pooch.HTTPDownloader.__call__, []

    def interrupt(downloader, url, output_file, *args, **options):
        fetched.append(url.rpartition("/")[2])
        if fetched[-1] == "t10k-images-idx3-ubyte.gz" and len(fetched) == 3:
            Path(output_file).write_bytes(b"a part")
            raise KeyboardInterrupt
        return download(downloader, url, output_file, *args, **options)

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", interrupt)
    with pytest.raises(KeyboardInterrupt):
        prepare_set("fashion-mnist", "real")
    assert len(folders(tmp_path / "raw" / "fashion-mnist")) == 2
    prepare_set("fashion-mnist", "real")
    assert [name[:10] for name in fetched[3:]] == ["t10k-image", "t10k-label"]


def test_a_missing_network_is_a_user_error_with_advice(official_source, prepare_set):
    (official_source / "train-images-idx3-ubyte.gz").unlink()
    with pytest.raises(UserError, match="or a mirror folder that has it"):
        prepare_set("fashion-mnist", "real")


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="Debian's dataset-fashion-mnist is not installed")
def test_the_real_fashion_mnist_of_debian(prepare_set, tmp_path):
    description = prepare_set("fashion-mnist", "available")
    assert (description.source, description.origin) == ("real", "debian")
    assert description.mean == pytest.approx((0.2860,), abs=5e-5)  # as published with many loaders
    assert description.std == pytest.approx((0.3530,), abs=5e-5)
    data = load(tmp_path / "prepared" / "fashion-mnist")
    assert np.bincount(data.train_labels).tolist() == [6000] * 10
    assert data.test_labels[:5].tolist() == [9, 2, 1, 1, 6]
