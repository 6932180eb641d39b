"""CIFAR batches in the layout of the official archives: a pickle of Python 2 and NumPy 1.

Python 3 cannot write them: it has no byte strings in protocol 2. The operations are documented in
the standard library's ``pickletools``.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def official_batch(images: NDArray[np.uint8], labels: NDArray[np.int64], classes: int) -> bytes:
    """Return a batch of images, shape (N, channels, height, width), and labels, shape (N,)."""
    label_key = b"labels" if classes == 10 else b"fine_labels"
    numbers = [int(label) for label in labels]
    names = [_string(f"image_{index:05d}.png".encode()) for index in range(len(numbers))]
    items = {
        b"batch_label": _string(b"training batch 1 of 5"),
        label_key: _list([_integer(number) for number in numbers]),
        b"data": _array(images.reshape(len(images), -1)),
        b"filenames": _list(names),
    }
    if classes != 10:
        items[b"coarse_labels"] = _list([_integer(number // 5) for number in numbers])
    body = b"".join(_string(key) + value for key, value in items.items())
    start = pickle.PROTO + b"\x02" + pickle.EMPTY_DICT
    return start + pickle.BINPUT + b"\x01" + pickle.MARK + body + pickle.SETITEMS + pickle.STOP


def _string(content: bytes) -> bytes:
    if len(content) < 256:
        return pickle.SHORT_BINSTRING + bytes([len(content)]) + content
    return pickle.BINSTRING + struct.pack("<i", len(content)) + content


def _integer(number: int) -> bytes:
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
    order = (_integer(3), _string(b"|"), none, none, none, _integer(-1), _integer(-1), _integer(0))
    dtype = _call("numpy", "dtype", _string(b"u1"), _integer(0), _integer(1))
    dtype += _tuple(*order) + pickle.BUILD
    shape = _tuple(*(_integer(length) for length in table.shape))
    array = _call(
        "numpy.core.multiarray",
        "_reconstruct",
        _name("numpy", "ndarray"),
        _tuple(_integer(0)),
        _string(b"b"),
    )
    state = _tuple(_integer(1), shape, dtype, pickle.NEWFALSE, _string(table.tobytes()))
    return array + state + pickle.BUILD
