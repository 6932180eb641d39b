"""The known data sets: shapes, official addresses, checksums and licences.

The MD5 of archives are those that public loaders verify downloads with, the MD5 of unpacked files
those that public loaders list. A set is accepted by its unpacked files, because legitimate copies
(that of a Linux distribution, for example) are compressed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from horizont.errors import UserError

Kind = Literal["image", "text"]
Format = Literal["cifar", "idx", "ptb"]


@dataclass(frozen=True)
class RawFile:
    """An official archive; ``size`` in bytes."""

    name: str
    md5: str
    size: int
    url: str


@dataclass(frozen=True)
class DatasetInfo:
    """The facts of a data set that are known without its files.

    Attributes
    ----------
    name, title
        The key in settings; the display name.
    format
        The format of the unpacked files: see :mod:`horizont.data.formats`.
    shape
        (channels, height, width) of an image; () for text.
    classes
        Number of classes; for text the size of the vocabulary, including the end of sentence.
    splits
        Examples of each split; for text words, including ends of sentences.
    files
        The official archives.
    split_files
        The unpacked files of each split, as paths inside the archives.
    file_md5
        MD5 of each unpacked file.
    page
        The web page of the data set, with licence and citation.
    debian_folder
        The folder with the archives of Debian's package, if there is one.
    """

    name: str
    title: str
    kind: Kind
    format: Format
    shape: tuple[int, ...]
    classes: int
    splits: Mapping[str, int]
    files: tuple[RawFile, ...]
    split_files: Mapping[str, tuple[str, ...]]
    file_md5: Mapping[str, str]
    licence: str
    citation: str
    page: str
    debian_folder: str | None = None


_CIFAR_URL = "https://www.cs.toronto.edu/~kriz/"

CIFAR10 = DatasetInfo(
    name="cifar10",
    title="CIFAR-10",
    kind="image",
    format="cifar",
    shape=(3, 32, 32),
    classes=10,
    splits={"train": 50_000, "test": 10_000},
    files=(
        RawFile(
            "cifar-10-python.tar.gz",
            "c58f30108f718f92721af3b95e74349a",
            170_498_071,
            _CIFAR_URL + "cifar-10-python.tar.gz",
        ),
    ),
    split_files={
        "train": tuple(f"cifar-10-batches-py/data_batch_{part}" for part in range(1, 6)),
        "test": ("cifar-10-batches-py/test_batch",),
    },
    file_md5={
        "cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f",
        "cifar-10-batches-py/data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "cifar-10-batches-py/data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "cifar-10-batches-py/data_batch_4": "634d18415352ddfa80567beed471001a",
        "cifar-10-batches-py/data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e",
    },
    licence="No licence is stated; the authors ask that their report be cited.",
    citation=(
        "A. Krizhevsky, Learning multiple layers of features from tiny images, "
        "technical report, University of Toronto, 2009"
    ),
    page=_CIFAR_URL + "cifar.html",
)

CIFAR100 = replace(
    CIFAR10,
    name="cifar100",
    title="CIFAR-100",
    classes=100,
    files=(
        RawFile(
            "cifar-100-python.tar.gz",
            "eb9058c3a382ffc7106e4002c42a8d85",
            169_001_437,
            _CIFAR_URL + "cifar-100-python.tar.gz",
        ),
    ),
    split_files={"train": ("cifar-100-python/train",), "test": ("cifar-100-python/test",)},
    file_md5={
        "cifar-100-python/train": "16019d7e3df5f24257cddd939b257f8d",
        "cifar-100-python/test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    },
)

_FASHION_MNIST_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"

FASHION_MNIST = DatasetInfo(
    name="fashion-mnist",
    title="Fashion-MNIST",
    kind="image",
    format="idx",
    shape=(1, 28, 28),
    classes=10,
    splits={"train": 60_000, "test": 10_000},
    files=tuple(
        RawFile(name, md5, size, _FASHION_MNIST_URL + name)
        for name, md5, size in (
            ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
            ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", 29_515),
            ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", 4_422_102),
            ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", 5_148),
        )
    ),
    split_files={
        "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
        "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
    },
    file_md5={
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
    licence="MIT, copyright 2017 Zalando SE",
    citation=(
        "H. Xiao, K. Rasul, R. Vollgraf, Fashion-MNIST: a novel image dataset for "
        "benchmarking machine learning algorithms, arXiv:1708.07747, 2017"
    ),
    page="https://github.com/zalandoresearch/fashion-mnist",
    debian_folder="/usr/share/datasets/fashion-mnist",
)

PTB = DatasetInfo(
    name="ptb",
    title="Penn Treebank (Mikolov)",
    kind="text",
    format="ptb",
    shape=(),
    classes=10_000,
    splits={"train": 929_589, "valid": 73_760, "test": 82_430},
    files=(
        RawFile(
            "simple-examples.tgz",
            "30177ea32e27c525793142b6bf2c8e2d",
            34_869_662,
            "http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
        ),
    ),
    split_files={
        "train": ("simple-examples/data/ptb.train.txt",),
        "valid": ("simple-examples/data/ptb.valid.txt",),
        "test": ("simple-examples/data/ptb.test.txt",),
    },
    file_md5={
        "simple-examples/data/ptb.train.txt": "f26c4b92c5fdc7b3f8c7cdcb991d8420",
        "simple-examples/data/ptb.valid.txt": "aa0affc06ff7c36e977d7cd49e3839bf",
        "simple-examples/data/ptb.test.txt": "8b80168b89c18661a38ef683c0dc3721",
    },
    licence="Linguistic Data Consortium (LDC99T42), for research",
    citation=(
        "M. Marcus, B. Santorini, M. Marcinkiewicz, Building a large annotated corpus of "
        "English: the Penn Treebank, Computational Linguistics 19(2), 1993; T. Mikolov et al., "
        "Recurrent neural network based language model, Interspeech 2010"
    ),
    page="https://catalog.ldc.upenn.edu/LDC99T42",
)

DATASETS: dict[str, DatasetInfo] = {
    info.name: info for info in (CIFAR10, CIFAR100, FASHION_MNIST, PTB)
}


def describe_own(
    name: str, shape: tuple[int, ...], classes: int, splits: Mapping[str, int]
) -> DatasetInfo:
    """Return the entry of a data set of the user: a text if it has no shape.

    Its files are written in the format of one of the known sets, for pipelines that read files.
    """
    format_: Format = "ptb" if not shape else "idx" if shape[0] == 1 else "cifar"
    suffixes = ("images", "labels") if format_ == "idx" else ("text" if not shape else "batch",)
    return DatasetInfo(
        name=name,
        title=name,
        kind="image" if shape else "text",
        format=format_,
        shape=shape,
        classes=classes,
        splits=splits,
        files=(),
        split_files={split: tuple(f"{split}_{suffix}" for suffix in suffixes) for split in splits},
        file_md5={},
        licence="",
        citation="",
        page="",
    )


def dataset_info(name: str) -> DatasetInfo:
    """Return the catalogue entry of a data set; refuse an unknown name."""
    if name not in DATASETS:
        raise UserError("dataset", name, DATASETS)
    return DATASETS[name]
