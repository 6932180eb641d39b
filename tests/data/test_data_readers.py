"""Data sets in the official formats are read exactly; other content is refused."""

import gzip
import hashlib
from dataclasses import replace

import numpy as np
import pytest

from horizont.data.catalogue import DATASETS
from horizont.data.formats import idx_bytes, parse_idx, read_dataset, write_tar
from horizont.data.sources import _read_files, locate, read_content
from horizont.errors import UserError

IMAGES = ("cifar10", "cifar100", "fashion-mnist")


@pytest.mark.parametrize("name", IMAGES)
def test_images_are_read_exactly(small, name):
    dataset = small(name)
    content = read_content(dataset.info, dataset.folder)
    assert set(content.arrays) == set(dataset.content.arrays)
    for key, array in dataset.content.arrays.items():
        np.testing.assert_array_equal(content.arrays[key], array)
        assert content.arrays[key].dtype == array.dtype


def test_text_is_read_exactly_and_numbered_by_frequency(small):
    dataset = small("ptb")
    content = read_content(dataset.info, dataset.folder)
    for key, tokens in dataset.content.arrays.items():
        words = [content.vocabulary[token] for token in content.arrays[key]]
        assert words == [dataset.content.vocabulary[token] for token in tokens]
        assert content.arrays[key].dtype == np.int32
    counts = np.bincount(content.arrays["train_tokens"])
    assert (np.diff(counts) <= 0).all()


@pytest.mark.parametrize("name", DATASETS)
def test_unpacked_files_are_accepted(small, name, tmp_path):
    dataset = small(name)
    from_archives = read_content(dataset.info, dataset.folder)
    for path, data in _read_files(dataset.info, dataset.folder).items():
        target = tmp_path / "unpacked" / path.rpartition("/")[2]
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)
    from_files = read_content(dataset.info, tmp_path / "unpacked")
    for key, array in from_archives.arrays.items():
        np.testing.assert_array_equal(from_files.arrays[key], array)


@pytest.mark.parametrize("name", DATASETS)
def test_content_with_another_checksum_is_refused(small, name):
    dataset = small(name)
    part = next(iter(dataset.info.file_md5))
    info = replace(dataset.info, file_md5={**dataset.info.file_md5, part: "0" * 32})
    with pytest.raises(UserError, match=r"checksum [0-9a-f]{32}.*official 0{32}"):
        read_content(info, dataset.folder)


@pytest.mark.parametrize("name", DATASETS)
def test_a_flipped_byte_is_refused(small, name):
    dataset = small(name)
    content = bytearray(dataset.archive().read_bytes())
    content[len(content) // 2] ^= 1
    dataset.archive().write_bytes(content)
    with pytest.raises(UserError):
        read_content(dataset.info, dataset.folder)


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.999])
def test_a_truncated_archive_is_refused(small, name, fraction):
    dataset = small(name)
    content = dataset.archive().read_bytes()
    dataset.archive().write_bytes(content[: int(fraction * len(content))])
    # an empty file is a valid, empty gzip file; its checksum is wrong
    with pytest.raises(UserError, match=r"refused|checksum"):
        read_content(dataset.info, dataset.folder)


def test_recompressed_archives_are_accepted(small):
    # Like those of Debian: the checksum of the content decides.
    dataset = small("fashion-mnist")
    for index in range(4):
        path = dataset.archive(index)
        path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), 1, mtime=7))
    read_content(dataset.info, dataset.folder)


@pytest.mark.parametrize("name", DATASETS)
def test_a_missing_file_is_named(small, name):
    dataset = small(name)
    dataset.archive().unlink()
    assert locate(dataset.info, dataset.folder.parent, None) is None
    with pytest.raises(UserError, match=dataset.archive().name):
        read_content(dataset.info, dataset.folder)


def test_ptb_without_its_test_text_is_refused(small):
    dataset = small("ptb")
    files = dict.fromkeys(list(dataset.info.file_md5)[:2], b"a b\n")
    write_tar(dataset.archive(), files)
    with pytest.raises(UserError, match=r"lacks simple-examples/data/ptb\.test\.txt"):
        read_content(dataset.info, dataset.folder)


def test_ptb_sentence_ends_and_order_of_words():
    info = DATASETS["ptb"]
    texts = (b" b a b \n\n c a\n", b"a\n", b"c")
    content = read_dataset(info, dict(zip(info.file_md5, texts, strict=True)))
    assert content.vocabulary == ("<eos>", "a", "b", "c")
    assert content.arrays["train_tokens"].tolist() == [2, 1, 2, 0, 0, 3, 1, 0]
    assert content.arrays["valid_tokens"].tolist() == [1, 0]
    assert content.arrays["test_tokens"].tolist() == [3]


def test_ptb_strange_words_and_bytes_are_refused():
    info = DATASETS["ptb"]
    for test, message in ((b"d\n", "'d'"), (b"\xff\xfe\n", "UTF-8")):
        texts = dict(zip(info.file_md5, (b"a\n", b"a\n", test), strict=True))
        with pytest.raises(UserError, match=message):
            read_dataset(info, texts)


IDX = idx_bytes(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))


def test_idx_is_read():
    np.testing.assert_array_equal(parse_idx("f", IDX, 3), np.arange(24).reshape(2, 3, 4))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0\0\x09\x03" + IDX[4:], "begins with 00000903"),
        (b"\0\0\x08\x01" + IDX[4:], "begins with 00000801"),
        (b"\x1f\x8b\x08\x03" + IDX[4:], "begins with 1f8b0803"),
        (IDX[:-1], "23 bytes"),
        (IDX + b"\0", "25 bytes"),
        (IDX[:10], "begins with"),
        (b"", "begins with"),
        (IDX[:4] + b"\xff" * 12 + IDX[16:], "24 bytes"),
    ],
)
def test_idx_damage_is_refused(content, message):
    with pytest.raises(UserError, match=message):
        parse_idx("train-images-idx3-ubyte", content, 3)


def with_right_checksums(dataset, files):
    sums = {name: hashlib.md5(data).hexdigest() for name, data in files.items()}
    return replace(dataset.info, file_md5={**dataset.info.file_md5, **sums})


def test_labels_outside_of_the_classes_are_refused(small):
    dataset = small("fashion-mnist")
    labels = idx_bytes(np.full(60, 10, np.uint8))
    dataset.archive(1).write_bytes(gzip.compress(labels))
    info = with_right_checksums(dataset, {"train-labels-idx1-ubyte": labels})
    with pytest.raises(UserError, match="0 to 9"):
        read_content(info, dataset.folder)


@pytest.mark.parametrize("name", DATASETS)
def test_other_sizes_than_the_catalogue_says_are_refused(small, name):
    dataset = small(name)
    info = replace(dataset.info, splits={**dataset.info.splits, "test": 19})
    with pytest.raises(UserError, match="test_"):
        read_content(info, dataset.folder)
