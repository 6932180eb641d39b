"""Malicious pickles execute nothing, and every refusal is one clear error."""

import io
import os
import pickle
import struct
from dataclasses import replace
from hashlib import md5

import numpy as np
import pytest
from tests.data.official_layout import official_batch

from horizont.data.archives import UNPICKLING_ERRORS, load_restricted_pickle
from horizont.data.catalogue import DATASETS
from horizont.data.formats import cifar_batch, read_dataset, write_archives, write_tar
from horizont.data.sources import read_content
from horizont.errors import UserError


class Command:
    """Creates a file when it is unpickled without restrictions."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_a_pickle_that_calls_the_system_executes_nothing(tmp_path):
    mark = tmp_path / "mark"
    bomb = pickle.dumps({"data": Command(mark), "labels": [1]}, protocol=2)
    pickle.loads(bomb)
    assert mark.exists()  # it does work with the unrestricted unpickler
    mark.unlink()
    with pytest.raises(pickle.UnpicklingError, match=r"posix\.system|os\.system|nt\.system"):
        load_restricted_pickle(bomb)
    assert not mark.exists()


FOREIGN = {
    "eval": b"\x80\x02c__builtin__\neval\nU\x011\x85R.",
    "builtins getattr": b"\x80\x02cbuiltins\ngetattr\n.",
    "numpy load": b"\x80\x02cnumpy\nload\n.",
    "other numpy global": b"\x80\x02cnumpy.core.multiarray\nscalar\n.",
    "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0bdtype.mro.x\x93.",
    "codecs": pickle.dumps(b"bytes", protocol=2),
    "old instance": b"(ios\nsystem\n.",
    "persistent": b"Panything\n.",
    "extension": b"\x80\x02\x82\x01.",
    "memo bomb": b"\x80\x02}r\xff\xff\xff\x7f.",
    "long memo bomb": b"}p99999999999\n.",
    "huge string": b"\x80\x02T" + struct.pack("<i", 2**30) + b"x.",
    "huge bytearray": b"\x80\x05\x96" + struct.pack("<Q", 2**45) + b"x.",
    "empty": b"",
    "stack underflow": b"\x80\x02R.",
    "no stop": b"\x80\x02}",
    "class as state": b"\x80\x02cnumpy\ndtype\n}b.",
    "object array": b"\x80\x02cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R.",
    "compound type": b"\x80\x02cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|}NNK\x00K\x00tb.",
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_foreign_or_broken_pickles_are_refused(content):
    with pytest.raises(UNPICKLING_ERRORS):
        load_restricted_pickle(content)


@pytest.mark.parametrize("operation", [b"q\xc8", b"r\x00\x00\x10\x00", b"p1000000\n"])
def test_memo_numbers_must_not_run_ahead(operation):
    # The unpickler's table is as long as the highest number: a few bytes could fill the memory.
    with pytest.raises(pickle.UnpicklingError, match="memo number"):
        load_restricted_pickle(b"\x80\x02}" + operation + b".")


def good_batch(small):
    dataset = small("cifar10")
    arrays = dataset.content.arrays
    return dataset.info, official_batch(arrays["train_images"], arrays["train_labels"], 10)


def read_one(info, content):
    return read_dataset(info, dict.fromkeys(info.file_md5, content))


def written_batch(info, images, labels):
    return cifar_batch(info, "title", images, labels)


def official_layout(info, images, labels):
    return official_batch(images, labels, info.classes)


@pytest.mark.parametrize("write", [written_batch, official_layout])
def test_batches_can_be_unpickled_by_numpy_and_are_read_as_they_were_written(small, write):
    dataset = small("cifar10")
    arrays = dataset.content.arrays
    content = write(dataset.info, arrays["train_images"], arrays["train_labels"])
    read = read_one(dataset.info, content).arrays
    np.testing.assert_array_equal(read["test_images"], arrays["train_images"])
    np.testing.assert_array_equal(read["test_labels"], arrays["train_labels"])
    unpickled = pickle.load(io.BytesIO(content), encoding="bytes")
    assert set(unpickled) == {b"batch_label", b"labels", b"data", b"filenames"}
    assert unpickled[b"data"].dtype == np.uint8
    images = dataset.content.arrays["train_images"]
    np.testing.assert_array_equal(unpickled[b"data"], images.reshape(len(images), -1))
    assert unpickled[b"labels"] == dataset.content.arrays["train_labels"].tolist()


@pytest.mark.parametrize("write", [written_batch, official_layout])
def test_cifar100_is_read_by_its_fine_labels(small, write):
    dataset = small("cifar100")
    labels = dataset.content.arrays["train_labels"]
    content = write(dataset.info, dataset.content.arrays["train_images"], labels)
    unpickled = pickle.load(io.BytesIO(content), encoding="bytes")
    assert unpickled[b"fine_labels"] == labels.tolist()
    assert max(unpickled[b"coarse_labels"]) == 19
    assert read_one(dataset.info, content).arrays["test_labels"].tolist() == labels.tolist()


def test_arrays_stored_column_by_column_are_read_as_numpy_reads_them(small):
    info, content = good_batch(small)
    transposed = content.replace(b"\x89T", b"\x88T")  # the flag before the array's bytes
    assert transposed != content
    unpickled = pickle.load(io.BytesIO(transposed), encoding="bytes")[b"data"]
    images = read_one(info, transposed).arrays["test_images"]
    np.testing.assert_array_equal(images.reshape(unpickled.shape), unpickled)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"U\x04data", b"U\x04dato"),
        (b"U\x06labels", b"U\x06lapels"),
        # an array that claims one row more than it has bytes
        (b"(K<J\x00\x0c\x00\x00t", b"(K=J\x00\x0c\x00\x00t"),
    ],
)
def test_batches_with_other_content_are_refused(small, old, new):
    info, content = good_batch(small)
    assert old in content
    with pytest.raises(UserError, match="batch of the official archive"):
        read_one(info, content.replace(old, new))


def test_every_truncation_of_a_batch_is_refused(small):
    info, content = good_batch(small)
    for length in [*range(0, 400, 7), *range(len(content) - 1, 400, -9973)]:
        with pytest.raises(UserError):
            read_one(info, content[:length])


def test_flipped_bytes_in_the_frame_never_raise_anything_else(small):
    info, content = good_batch(small)
    frame = [*range(300), *range(len(content) - 300, len(content))]
    for index in frame:
        flipped = content[:index] + bytes([content[index] ^ 0xFF]) + content[index + 1 :]
        try:
            read_one(info, flipped)
        except UserError:
            continue


def test_a_bomb_in_an_archive_with_right_checksums_is_still_refused(small, tmp_path):
    # Checksums are the first protection; the unpickler must be safe without them.
    dataset = small("cifar10")
    mark = tmp_path / "mark"
    bomb = pickle.dumps(Command(mark), protocol=2)
    write_tar(dataset.archive(), dict.fromkeys(dataset.info.file_md5, bomb))
    info = replace(
        dataset.info, file_md5=dict.fromkeys(dataset.info.file_md5, md5(bomb).hexdigest())
    )
    with pytest.raises(UserError, match="system"):
        read_content(info, dataset.folder)
    assert not mark.exists()


def test_archives_are_reproducible(small, tmp_path):
    dataset = small("cifar100")
    again = write_archives(DATASETS["cifar100"], dataset.content, tmp_path / "again")
    assert again.files[0].md5 == dataset.info.files[0].md5
