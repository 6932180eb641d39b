"""The catalogue: complete entries with the published sizes."""

import math

import pytest

from horizont.data.catalogue import DATASETS, dataset_info
from horizont.errors import UserError


def test_an_unknown_name_is_a_user_error_that_lists_the_names():
    with pytest.raises(UserError, match=r"dataset: 'mnist'.*cifar10, cifar100, fashion-mnist, ptb"):
        dataset_info("mnist")


@pytest.mark.parametrize("name", DATASETS)
def test_every_file_has_a_checksum_and_every_archive_a_url(name):
    info = dataset_info(name)
    assert info.name == name
    assert [file for files in info.split_files.values() for file in files] == list(info.file_md5)
    sums = [*info.file_md5.values(), *(file.md5 for file in info.files)]
    assert all(len(digest) == 32 and int(digest, 16) for digest in sums)
    assert len(set(sums)) == len(sums)
    assert set(info.split_files) == set(info.splits)
    assert all(file.url.endswith("/" + file.name) for file in info.files)
    assert info.licence
    assert info.citation


def test_the_sets_have_their_published_sizes():
    sizes = {
        name: (info.shape, info.classes, *info.splits.values()) for name, info in DATASETS.items()
    }
    assert sizes == {
        "cifar10": ((3, 32, 32), 10, 50_000, 10_000),
        "cifar100": ((3, 32, 32), 100, 50_000, 10_000),
        "fashion-mnist": ((1, 28, 28), 10, 60_000, 10_000),
        "ptb": ((), 10_000, 929_589, 73_760, 82_430),
    }
    assert math.prod(sizes["cifar10"][0]) == 3072
