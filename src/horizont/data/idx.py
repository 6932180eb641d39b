"""The reader of IDX files, the format of MNIST and Fashion-MNIST.

An IDX file is two zero bytes, one for the type (8: unsigned byte), one for the number of axes,
a big-endian 32-bit length for each axis, then the content with the last axis running fastest.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from horizont.data.catalogue import DatasetInfo
from horizont.data.content import Array, Content
from horizont.errors import UserError

UNSIGNED_BYTE = 8


def read_idx(info: DatasetInfo, files: Mapping[str, bytes]) -> Content:
    """Turn unpacked IDX files into arrays; ``info.parts`` has images and labels of each split.

    Raises
    ------
    UserError
        If a file has another type or number of axes, or is shorter or longer than it says.
    """
    arrays: dict[str, Array] = {}
    for split, (images, labels) in info.parts.items():
        pixels = parse_idx(images, files[images], axes=3)
        arrays[f"{split}_images"] = pixels[:, None]
        arrays[f"{split}_labels"] = parse_idx(labels, files[labels], axes=1).astype(np.int64)
    return Content(arrays)


def parse_idx(name: str, content: bytes, axes: int) -> NDArray[np.uint8]:
    """Return the array in an IDX file of unsigned bytes with this number of axes."""
    magic = bytes([0, 0, UNSIGNED_BYTE, axes])
    start = 4 + 4 * axes
    if content[:4] != magic or len(content) < start:
        raise UserError(name, f"begins with {content[:4].hex()}", f"IDX, {magic.hex()}")
    shape = struct.unpack(f">{axes}I", content[4:start])
    if len(content) - start != math.prod(shape):
        found = f"{len(content) - start} bytes of content"
        raise UserError(name, found, f"{math.prod(shape)} bytes, as its header says")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
