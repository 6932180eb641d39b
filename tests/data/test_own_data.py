"""Data sets of the user: images in a folder for each class, and a text."""

import functools
import shutil

import numpy as np
import pytest
from PIL import Image

from horizont.config.base import parse_config
from horizont.config.data import DataConfig
from horizont.data.files import open_files, write_files_if_missing
from horizont.data.own import find_info, find_own
from horizont.data.preparation import prepare
from horizont.data.prepared import load
from horizont.errors import UserError

COLOURS = {"blue": (0, 0, 255), "red": (255, 0, 0)}


def write_image(path, colour, size=(20, 30)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def images(tmp_path):
    """Twenty images of each of two colours, each a little different."""
    for name, colour in COLOURS.items():
        for number in range(20):
            shade = tuple(max(0, value - number) for value in colour)
            write_image(tmp_path / "data/own/colours" / name / f"{number:02}.png", shade)
    return tmp_path / "data/own/colours"


@pytest.fixture
def text(tmp_path):
    """A text of forty lines in a folder of its own."""
    folder = tmp_path / "data/own/tales"
    folder.mkdir(parents=True)
    lines = [f"The {'old' if line % 2 else 'new'} king's tale, again." for line in range(40)]
    (folder / "tales.txt").write_text("\n\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture
def own(tmp_path):
    """Return a function that prepares an own data set with these settings."""

    def prepare_own(name, limits=None, **settings):
        config = parse_config(DataConfig, {"own": {name: settings}})
        return prepare(
            name,
            "synthetic",
            tmp_path / "raw",
            tmp_path / "prepared",
            own=find_own(config, name, tmp_path),
            **(limits or {}),
        )

    return prepare_own


def test_images_are_scaled_split_and_labelled(images, own, tmp_path):
    description = own("colours", kind="image", size=16, test_fraction=0.25)
    assert (description.source, description.origin) == ("own", "own folder")
    assert description.splits == {"train": 30, "test": 10}
    assert description.class_names == ("blue", "red")
    assert description.duplicates == 0
    data = load(tmp_path / "prepared" / "colours", verify=True)
    assert data.train_images.shape == (30, 3, 16, 16)
    is_red = np.asarray(data.train_images[:, 0].mean((1, 2)) > 200)
    np.testing.assert_array_equal(is_red, np.asarray(data.train_labels) == 1)
    assert np.bincount(data.test_labels).tolist() == [5, 5]


def test_the_first_examples_are_of_all_classes(images, own):
    description = own("colours", {"train_examples": 8, "test_examples": 10_000}, kind="image")
    assert description.splits == {"train": 8, "test": 4}
    data = own("colours", {"train_examples": 8}, kind="image", channels=1)
    assert data.shape == (1, 32, 32)


def test_the_split_does_not_depend_on_the_place(images, own, tmp_path):
    first = own("colours", kind="image")
    images.rename(tmp_path / "elsewhere")
    second = own("colours", kind="image", path=str(tmp_path / "elsewhere"))
    assert first.sha256 == second.sha256


def test_train_and_test_folders_are_the_splits(own, tmp_path):
    folder = tmp_path / "data/own/colours"
    for split, count in {"train": 4, "test": 2}.items():
        for name, colour in COLOURS.items():
            for number in range(count):
                write_image(folder / split / name / f"{number}.jpg", colour)
    description = own("colours", kind="image")
    assert description.splits == {"train": 8, "test": 4}
    assert description.duplicates == 4  # all images of a class are equal
    with pytest.raises(UserError, match=r"own\.colours\.test_fraction: 0\.1 .* already split"):
        own("colours", kind="image", test_fraction=0.1)


def test_changed_files_are_prepared_again(images, own, tmp_path):
    first = own("colours", kind="image")
    written = (tmp_path / "prepared/colours/description.json").stat()
    assert own("colours", kind="image") == first
    assert (tmp_path / "prepared/colours/description.json").stat() == written
    (images / ".hidden").write_text("not an image")
    assert own("colours", kind="image") == first
    write_image(images / "red" / "00.png", (0, 255, 0))
    assert own("colours", kind="image").sha256 != first.sha256


@pytest.mark.parametrize("channels", [1, 3])
def test_pipelines_read_the_images_from_files(images, own, tmp_path, channels):
    own("colours", kind="image", channels=channels)
    data = load(tmp_path / "prepared" / "colours")
    files = open_files(data.description, write_files_if_missing(data, tmp_path / "files"))
    np.testing.assert_array_equal(files.read(range(len(files))), data.train_images)
    np.testing.assert_array_equal(files.labels, data.train_labels)


def test_a_text_is_split_by_lines(text, own, tmp_path):
    description = own("tales", kind="text")
    words = 8  # the, old or new, king's, tale, comma, again, full stop, end of line
    assert description.splits == {"train": 32 * words, "valid": 4 * words, "test": 4 * words}
    data = load(tmp_path / "prepared" / "tales", verify=True)
    read = [data.vocabulary[token] for token in data.test_tokens[:words]]
    assert read == ["the", "new", "king's", "tale", ",", "again", ".", "<eos>"]
    assert "<unk>" not in data.vocabulary


def test_unknown_words_occur_in_the_training_text(text, own, tmp_path):
    (text / "train.txt").write_text("one one two two three\n")
    (text / "valid.txt").write_text("one four\n")
    (text / "test.txt").write_text("two five\n")
    own("tales", kind="text")
    data = load(tmp_path / "prepared" / "tales")
    assert set(data.vocabulary) == {"one", "two", "<unk>", "<eos>"}
    with pytest.raises(UserError, match=r"own\.tales\.test_fraction: 0\.2 .* already split"):
        own("tales", kind="text", test_fraction=0.2)
    train, valid = ([data.vocabulary[t] for t in s] for s in (data.train_tokens, data.valid_tokens))
    assert train == ["one", "one", "two", "two", "<unk>", "<eos>"]
    assert valid == ["one", "<unk>", "<eos>"]


def test_a_vocabulary_is_limited(text, own, tmp_path):
    (text / "tales.txt").write_text("\n".join(f"w{n} " * (40 - n) for n in range(39)))
    own("tales", kind="text", words=10)
    vocabulary = load(tmp_path / "prepared" / "tales").vocabulary
    assert len(vocabulary) == 10
    assert {"<unk>", "<eos>", "w0", "w7"} <= set(vocabulary)


def damage(folder):
    next((folder / "red").glob("*.png")).write_bytes(b"\x89PNG no more")


def truncate(folder):
    file = next((folder / "red").glob("*.png"))
    file.write_bytes(file.read_bytes()[:60])


def save_deep(folder):
    Image.fromarray(np.zeros((8, 8), np.uint16)).save(next((folder / "red").glob("*.png")))


def empty_class(folder):
    (folder / "green").mkdir()


def odd_class(folder):
    for split in ("train", "test"):
        for name in (*COLOURS, f"only-{split}"):
            for number in range(2):
                write_image(folder / split / name / f"{number}.png", (0, 0, 0))


def flat(folder):
    for name in COLOURS:
        (folder / name).rename(folder.parent / name)


BAD_IMAGES = {
    damage: r"\.png: .*unreadable.*an undamaged image",
    truncate: r"\.png: .*unreadable.*an undamaged image",
    save_deep: r"\.png: .*mode I.*8 bits per channel",
    empty_class: r"data\.own\.colours\.path: .*0 images in .*green.*at least two",
    odd_class: r"data\.own\.colours\.path: .*only-test is in one of train and test only",
    flat: r"data\.own\.colours\.path: .*0 folders in .*a folder of images for each class",
    shutil.rmtree: r"data\.own\.colours\.path: .* does not exist",
}


@pytest.mark.parametrize("change", BAD_IMAGES, ids=lambda change: change.__name__)
def test_unusable_images_are_refused_and_nothing_is_written(images, own, tmp_path, change):
    change(images)
    with pytest.raises(UserError, match=BAD_IMAGES[change]):
        own("colours", kind="image")
    assert not (tmp_path / "prepared" / "colours").exists()


BAD_TEXTS = {
    "two texts": (lambda folder: (folder / "more.txt").write_text("more"), "2 text files"),
    "Latin-1": (lambda folder: (folder / "tales.txt").write_bytes(b"caf\xe9"), "text in UTF-8"),
    "two lines": (
        lambda folder: (folder / "tales.txt").write_text("a\nb"),
        "no words for train in .*at least three lines",
    ),
    "missing": (lambda folder: (folder / "tales.txt").unlink(), "0 text files"),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_an_unusable_text_is_refused(text, own, name):
    change, message = BAD_TEXTS[name]
    change(text)
    with pytest.raises(UserError, match=message):
        own("tales", kind="text")


BAD_SETTINGS = [
    ("colours", {}, "kind"),
    ("colours", {"kind": "sound"}, "kind"),
    ("colours", {"kind": "image", "size": 4}, "size"),
    ("colours", {"kind": "image", "channels": 2}, "channels"),
    ("colours", {"kind": "image", "test_fraction": 0.5}, "test_fraction"),
    ("colours", {"kind": "image", "folder": "x"}, "folder"),
    ("../colours", {"kind": "image"}, "own"),
    ("cifar10", {"kind": "image"}, "another name than cifar10"),
    ("colours", {"kind": "image"}, "data.own.colours.path"),
    ("tales", {"kind": "text"}, "data.own.tales.path"),
]


@pytest.mark.parametrize(("name", "settings", "message"), BAD_SETTINGS, ids=str)
def test_wrong_settings_name_the_field(own, name, settings, message):
    with pytest.raises(UserError, match=message):
        own(name, **settings)


def test_an_unknown_name_lists_the_own_sets(tmp_path):
    config = parse_config(DataConfig, {"own": {"tales": {"kind": "text"}}})
    find = functools.partial(find_info, config, root=tmp_path)
    with pytest.raises(UserError, match=r"ptb, tales, or a data set described in data\.own"):
        find("talse")
