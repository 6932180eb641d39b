"""The prepared folder is written atomically and checked when it is opened."""

import json
import stat

import numpy as np
import pytest

from horizont.data import prepared
from horizont.data.preparation import prepare
from horizont.data.prepared import atomic_folder, channel_moments, hash_array, load
from horizont.errors import UserError


@pytest.fixture
def images(tmp_path):
    limits = {"train_examples": 30, "test_examples": 10}
    prepare("fashion-mnist", "synthetic", tmp_path / "raw", tmp_path, **limits)
    return tmp_path / "fashion-mnist"


@pytest.fixture
def text(tmp_path):
    limits = {"train_examples": 300, "test_examples": 100}
    prepare("ptb", "synthetic", tmp_path / "raw", tmp_path, **limits)
    return tmp_path / "ptb"


def test_images_are_mapped_with_their_types_and_shapes(images):
    data = load(images, verify=True)
    assert isinstance(data, prepared.ImageData)
    assert isinstance(data.train_images, np.memmap)
    assert (data.train_images.shape, data.train_images.dtype) == ((30, 1, 28, 28), np.uint8)
    assert (data.test_labels.shape, data.test_labels.dtype) == ((10,), np.int64)
    assert data.description.source == "synthetic"
    with pytest.raises(ValueError, match="read-only"):
        data.train_images[0] = 0


def test_text_is_mapped_with_its_vocabulary(text):
    data = load(text, verify=True)
    assert isinstance(data, prepared.TextData)
    assert (data.valid_tokens.shape, data.train_tokens.dtype) == ((100,), np.int32)
    assert len(data.vocabulary) == 10_000
    assert data.vocabulary[0] == "<eos>"


def test_the_folder_is_readable_for_everyone(images):
    assert stat.S_IMODE(images.stat().st_mode) == 0o755


def rewrite(path, change):
    description = json.loads(path.read_text())
    change(description)
    path.write_text(json.dumps(description))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda description: description.update(format=2), "format"),
        (lambda description: description.update(source="guessed"), "source"),
        (lambda description: description.update(extra=1), "extra"),
        (lambda description: description.pop("classes"), "classes"),
        (lambda description: description["splits"].update(train=31), "train_images"),
        (lambda description: description["splits"].update(valid=5), "valid_images"),
        (lambda description: description.update(shape=[1, 28, 27]), "train_images"),
    ],
)
def test_an_inconsistent_description_is_refused(images, change, message):
    rewrite(images / "description.json", change)
    with pytest.raises(UserError, match=message):
        load(images)


def test_missing_and_damaged_files_are_named(images, tmp_path):
    with pytest.raises(UserError, match=r"description\.json"):
        load(tmp_path / "nowhere")
    array = images / "train_images.npy"
    content = array.read_bytes()
    for damaged in (content[:-1], content[:50], b"", b"\x80\x04K\x01."):
        array.write_bytes(damaged)
        with pytest.raises(UserError, match=r"train_images\.npy"):
            load(images)
    array.unlink()
    with pytest.raises(UserError, match=r"train_images\.npy"):
        load(images)


def test_changed_content_is_detected_by_verification(images):
    for name in ("train_images.npy", "test_labels.npy"):
        content = (images / name).read_bytes()
        (images / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        load(images)
        with pytest.raises(UserError, match=name):
            load(images, verify=True)
        (images / name).write_bytes(content)


@pytest.mark.parametrize("words", ["[]", "{", '{"a": 1}'])
def test_a_damaged_vocabulary_is_refused(text, words):
    (text / "vocabulary.json").write_text(words)
    with pytest.raises(UserError, match="vocabulary"):
        load(text)


def test_pickled_arrays_are_never_opened(images):
    np.save(images / "train_labels.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(UserError, match="train_labels"):
        load(images)


def test_a_hash_depends_on_type_shape_and_bytes_not_on_memory_layout(monkeypatch):
    array = np.arange(24, dtype=np.int32).reshape(4, 6)
    assert hash_array(array) == hash_array(np.asfortranarray(array))
    others = [array.reshape(6, 4), array.view(np.uint32), array + 1]
    assert len({hash_array(other) for other in [array, *others]}) == 4
    assert hash_array(array[:0])


def test_moments_agree_with_numpy():
    pixels = np.random.default_rng(0).integers(0, 256, (1500, 2, 5, 5)).astype(np.uint8)
    mean, std = channel_moments(pixels)
    np.testing.assert_allclose(mean, (pixels / 255).mean((0, 2, 3)))
    np.testing.assert_allclose(std, (pixels / 255).std((0, 2, 3)))


def fail_inside(target, error):
    with atomic_folder(target) as temporary:
        (temporary / "half").touch()
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_folder_leaves_the_old_one(tmp_path, error):
    target = tmp_path / "set"
    for old in (False, True):
        if old:
            target.mkdir()
            (target / "old").touch()
        with pytest.raises(error):
            fail_inside(target, error)
        assert [path.name for path in tmp_path.rglob("*")] == (["set", "old"] if old else [])


def test_a_complete_folder_replaces_the_old_one(tmp_path):
    for name in ("old", "new"):
        with atomic_folder(tmp_path / "set") as temporary:
            (temporary / name).touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["new", "set"]


def test_a_failed_rename_restores_the_old_folder(tmp_path, monkeypatch):
    target = tmp_path / "set"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(UserError, match="set"), atomic_folder(target) as temporary:
        temporary.rmdir()  # so that the rename fails
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["old", "set"]


def test_a_read_only_folder_is_a_user_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="writable"), atomic_folder(tmp_path / "file" / "set"):
        pass


def test_a_full_disk_is_a_user_error_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(prepared.np, "save", full)
    with pytest.raises(UserError, match="No space left"):
        prepare("ptb", "synthetic", tmp_path, tmp_path / "out", train_examples=10, test_examples=5)
    assert list((tmp_path / "out").iterdir()) == []


def test_the_format_version_is_written(images):
    assert (
        json.loads((images / "description.json").read_text())["format"]
        == prepared.DESCRIPTION_FORMAT
    )
