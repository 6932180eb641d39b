"""What is drawn on a page of a PDF, written more shortly.

Typst sets each letter of a figure in a block of its own. Letters of one line, one font and one
colour become one block here, with the distances between them (ISO 32000-1, 9.4.2).
"""

from __future__ import annotations

import re
from itertools import pairwise

#: A number with more digits than can be seen. Inside of texts there are none: each letter is two
#: bytes there, the first of them smaller than a digit.
_NUMBER = re.compile(rb"(?<![\w.\\])-?\d*\.\d{3,}(?![\w.])")

#: A letter: scale, place from the left, place from below, colour and font, and what is shown.
_LETTER = re.compile(
    rb"q ([\d.]+) 0 0 -\1 ([\d.]+) ([\d.]+) cm(/[^\n(]*? scn\n"
    rb"BT 0 Tr/\w+ [\d.]+ Tf) 1 0 0 -1 0 0 Tm(\((?:[^\\()\n]|\\.)*\))Tj\nET\nQ\n",
)


def shorter(content: bytes) -> bytes:
    """Round what is drawn, and set the letters of a line together."""
    return _NUMBER.sub(_rounded, _lines(content))


def _rounded(found: re.Match[bytes]) -> bytes:
    """Round a place to a hundredth of a point, a factor to four digits behind the point."""
    value = float(found[0])
    text = b"%.4f" % value if abs(value) < 10 else b"%.2f" % value
    return text.rstrip(b"0").rstrip(b".")


def _lines(content: bytes) -> bytes:
    """Put letters that follow each other on one line into one block."""
    out, end = bytearray(), 0
    line: list[re.Match[bytes]] = []
    for letter in _LETTER.finditer(content):
        follows = line and letter.start() == end and _alike(line[-1], letter)
        if not follows:
            out += _written(line)
            out += content[end : letter.start()]
            line = []
        line.append(letter)
        end = letter.end()
    return bytes(out + _written(line) + content[end:])


def _alike(one: re.Match[bytes], other: re.Match[bytes]) -> bool:
    return all(one[part] == other[part] for part in (1, 3, 4))


def _written(line: list[re.Match[bytes]]) -> bytes:
    if len(line) < 2:
        return line[0][0] if line else b""
    first, scale = line[0], float(line[0][1])
    out = b"q %s 0 0 -%s %s %s cm%s 1 0 0 -1 0 0 Tm%s Tj" % (
        first[1], first[1], first[2], first[3], first[4], first[5],
    )  # fmt: skip
    for before, letter in pairwise(line):
        step = (float(letter[2]) - float(before[2])) / scale
        out += b" %.3f 0 Td%sTj" % (step, letter[5])
    return out + b"\nET\nQ\n"
