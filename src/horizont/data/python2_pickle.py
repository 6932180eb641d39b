"""Batches as Python 2 and NumPy 1 pickled them, which is what the CIFAR archives hold.

Python 3 cannot write them: its pickles have no byte strings in protocol 2. The operations are
documented in the standard library's ``pickletools``.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from horizont.data.catalogue import DatasetInfo
from horizont.data.formats import label_key


def cifar_batch(
    info: DatasetInfo, title: str, images: NDArray[np.uint8], labels: NDArray[np.int64]
) -> bytes:
    """Return a batch file.

    Parameters
    ----------
    info
        Tells fine labels (100 classes) from plain ones.
    title
        The batch's name inside of the file.
    images, labels
        uint8 (N, channels, height, width) and int64 (N,).
    """
    numbers = [int(label) for label in labels]
    names = [_string(f"image_{index:05d}.png".encode()) for index in range(len(numbers))]
    items = {
        b"batch_label": _string(title.encode()),
        label_key(info): _list([_whole(number) for number in numbers]),
        b"data": _array(images.reshape(len(images), -1)),
        b"filenames": _list(names),
    }
    if label_key(info) == b"fine_labels":
        items[b"coarse_labels"] = _list([_whole(number // 5) for number in numbers])
    body = b"".join(_string(key) + value for key, value in items.items())
    start = pickle.PROTO + b"\x02" + pickle.EMPTY_DICT
    return start + _put(1) + pickle.MARK + body + pickle.SETITEMS + pickle.STOP


def _put(number: int) -> bytes:
    return pickle.BINPUT + bytes([number])


def _string(content: bytes) -> bytes:
    if len(content) < 256:
        return pickle.SHORT_BINSTRING + bytes([len(content)]) + content
    return pickle.BINSTRING + struct.pack("<i", len(content)) + content


def _whole(number: int) -> bytes:
    if 0 <= number < 256:
        return pickle.BININT1 + bytes([number])
    return pickle.BININT + struct.pack("<i", number)


def _list(items: Sequence[bytes]) -> bytes:
    return pickle.EMPTY_LIST + pickle.MARK + b"".join(items) + pickle.APPENDS


def _tuple(*items: bytes) -> bytes:
    return pickle.MARK + b"".join(items) + pickle.TUPLE


def _call(module: str, name: str, *arguments: bytes) -> bytes:
    return _name(module, name) + _tuple(*arguments) + pickle.REDUCE


def _name(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def _array(table: NDArray[np.uint8]) -> bytes:
    none = pickle.NONE
    order = (_whole(3), _string(b"|"), none, none, none, _whole(-1), _whole(-1), _whole(0))
    kind = _call("numpy", "dtype", _string(b"u1"), _whole(0), _whole(1))
    kind += _tuple(*order) + pickle.BUILD
    shape = _tuple(*(_whole(length) for length in table.shape))
    bare = _call(
        "numpy.core.multiarray",
        "_reconstruct",
        _name("numpy", "ndarray"),
        _tuple(_whole(0)),
        _string(b"b"),
    )
    state = _tuple(_whole(1), shape, kind, pickle.NEWFALSE, _string(table.tobytes()))
    return bare + state + pickle.BUILD
