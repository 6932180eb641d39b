"""Reading the pickles of the CIFAR archives without running anything in them.

A pickle is a program that may call whatever it names. Here it can name three things, and each is
replaced by an inert stand-in of ours, so not even NumPy's own unpickling code sees the bytes.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Whatever a hostile pickle makes the unpickler raise; its machine checks little by itself.
DAMAGE = (
    pickle.UnpicklingError,
    EOFError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


class _ByteType:
    """Stands for ``numpy.dtype``; only unsigned bytes are admitted."""

    def __init__(self, code: object, *flags: object) -> None:
        if code not in (b"u1", "u1"):
            raise pickle.UnpicklingError(f"an array of type {code!r}, not of bytes")

    def __setstate__(self, state: tuple[object, ...]) -> None:
        if any(part is not None for part in state[2:5]):  # a structured or nested type
            raise pickle.UnpicklingError("an array of a compound type")


class ByteArray:
    """Stands for a pickled ``numpy.ndarray`` of unsigned bytes."""

    def __init__(self, *construction: object) -> None:
        self._pixels: NDArray[np.uint8] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, columns_first, content = state
        if not isinstance(kind, _ByteType) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("an array of something else than bytes")
        flat = np.frombuffer(content, np.uint8)
        self._pixels = flat.reshape(shape, order="F" if columns_first else "C")

    def pixels(self) -> NDArray[np.uint8]:
        """Return the content."""
        if self._pixels is None:
            raise ValueError("an array without content")
        return self._pixels


_ADMITTED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): ByteArray,
    ("numpy._core.multiarray", "_reconstruct"): ByteArray,
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): _ByteType,
}


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"a call of {module}.{name}")
        return _ADMITTED[module, name]


def load_pickle(content: bytes) -> object:
    """Return the object in a pickle of Python 2's lists, dictionaries, strings and byte arrays.

    Strings come as ``bytes``, arrays as :class:`ByteArray`.

    Raises
    ------
    One of ``DAMAGE``
        If the pickle is damaged or wants anything else.
    """
    _check_memo(content)
    return _Restricted(io.BytesIO(content), encoding="bytes").load()


def _check_memo(content: bytes) -> None:
    """Refuse huge memo numbers: the unpickler makes a table as long as the highest one."""
    for count, (code, argument, _) in enumerate(pickletools.genops(content)):
        if code.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(argument or 0) > count:
            raise pickle.UnpicklingError(f"memo number {argument} after {count} operations")
