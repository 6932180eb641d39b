"""A PDF made smaller without any change of what it shows.

Typst writes each object by itself and as plain text: thousands of small ones, which say what is a
heading and what a cell of a table, for those who have the book read to them. PDF 1.5 has object
streams (ISO 32000-1, 7.5.7), in which many are compressed together, and a compressed list of where
all objects are (7.5.8). What is a stream already is compressed once more, what is drawn after it
was written more shortly.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Mapping

from horizont.report.printed.drawing import shorter

#: Objects in one stream; more compress better, and are slower to reach.
TOGETHER = 1000

_TRAILER = re.compile(rb"trailer\s*<<(.*?)>>\s*startxref", re.DOTALL)
_ENTRY = re.compile(rb"(\d{10}) \d{5} ([nf])")
_HEAD = re.compile(rb"(\d+) 0 obj\s*")
_LENGTH = re.compile(rb"/Length (\d+)(?! \d+ R)")


def packed(pdf: bytes) -> bytes:
    """Pack the objects of a PDF into compressed streams.

    Parameters
    ----------
    pdf
        With a plain list of objects, as Typst writes it; any other is handed back as it is.
    """
    objects = _objects(pdf)
    trailer = _TRAILER.search(pdf)
    if not objects or trailer is None or b"/Encrypt" in trailer[1]:
        return pdf
    out = bytearray(pdf[: pdf.index(b"\n", pdf.index(b"\n") + 1) + 1])
    places: dict[int, tuple[int, int, int]] = {0: (0, 0, 65535)}
    plain: dict[int, bytes] = {}
    for number, body in objects.items():
        if b"stream" in body:
            places[number] = (1, len(out), 0)
            out += b"%d 0 obj\n%s\nendobj\n" % (number, _compressed(body))
        else:
            plain[number] = body
    following = max(objects) + 1
    for chunk in _chunks(plain):
        places[following] = (1, len(out), 0)
        places.update({number: (2, following, at) for at, number in enumerate(chunk)})
        out += _object_stream(following, chunk)
        following += 1
    end = len(out)
    places[following] = (1, end, 0)
    out += _places_stream(following, places, trailer[1])
    out += b"startxref\n%d\n%%%%EOF\n" % end
    return bytes(out) if len(out) < len(pdf) else pdf


def _objects(pdf: bytes) -> dict[int, bytes]:
    """Read all objects by the list at the end of the file."""
    start = int(pdf[pdf.rindex(b"startxref") + 9 :].split()[0])
    if not pdf.startswith(b"xref", start):
        return {}
    found = {}
    used = [int(at) for at, kind in _ENTRY.findall(pdf, start) if kind == b"n"]
    ends = dict(zip(sorted(used), [*sorted(used)[1:], start], strict=True))
    for at in used:
        head = _HEAD.match(pdf, at)
        if head is None:
            return {}
        body = pdf[head.end() : ends[at]]
        found[int(head[1])] = body[: body.rindex(b"endobj")].rstrip()
    return found


def _chunks(objects: Mapping[int, bytes]) -> Iterator[dict[int, bytes]]:
    items = list(objects.items())
    for start in range(0, len(items), TOGETHER):
        yield dict(items[start : start + TOGETHER])


def _compressed(body: bytes) -> bytes:
    """Compress a stream once more, with all effort."""
    head, rest = body.split(b"stream\n", 1)
    length = _LENGTH.search(head)
    if length is None or b"/FlateDecode" not in head or b"/DecodeParms" in head:
        return body
    data = rest[: int(length[1])]
    content = zlib.decompress(data)
    if b"/Subtype" not in head:  # what is drawn on a page, not a font nor an image
        content = shorter(content)
    smaller = zlib.compress(content, 9)
    if len(smaller) >= len(data):
        return body
    head = head.replace(length[0], b"/Length %d" % len(smaller), 1)
    return head + b"stream\n" + smaller + b"\nendstream"


def _object_stream(number: int, objects: Mapping[int, bytes]) -> bytes:
    at, index = 0, []
    for name, body in objects.items():
        index.append(b"%d %d" % (name, at))
        at += len(body) + 1
    head = b" ".join(index) + b"\n"
    data = zlib.compress(head + b"\n".join(objects.values()), 9)
    about = b"/Type/ObjStm/N %d/First %d" % (len(objects), len(head))
    return _stream(number, about, data)


def _places_stream(
    number: int, places: Mapping[int, tuple[int, int, int]], trailer: bytes
) -> bytes:
    """Write where each object is: kind, place, and number inside of a stream."""
    rows = [places.get(name, (0, 0, 65535)) for name in range(number + 1)]
    data = zlib.compress(_differences([struct.pack(">BIH", *row) for row in rows]), 9)
    kept = re.sub(rb"/Size \d+", b"", trailer).strip()
    about = b"/Type/XRef/Size %d/W[1 4 2]/DecodeParms<</Predictor 12/Columns 7>>%s"
    about %= (number + 1, kept)
    return _stream(number, about, data)


def _differences(rows: list[bytes]) -> bytes:
    """Write each row as its difference to the one above (PNG's filter 2), for they are alike."""
    above = [bytes(len(rows[0])), *rows]
    return b"".join(
        b"\2" + bytes((a - b) % 256 for a, b in zip(row, up, strict=True))
        for row, up in zip(rows, above, strict=False)
    )


def _stream(number: int, about: bytes, data: bytes) -> bytes:
    head = b"%d 0 obj\n<<%s/Filter/FlateDecode/Length %d>>\n" % (number, about, len(data))
    return head + b"stream\n" + data + b"\nendstream\nendobj\n"
