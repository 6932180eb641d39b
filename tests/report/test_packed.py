"""A smaller PDF: what is left out is not seen, and what is there can be read."""

from __future__ import annotations

import re
import zlib

from horizont.report.printed.drawing import shorter
from horizont.report.printed.packed import packed
from horizont.report.printed.slim import simplified, slim

LETTERS = b"".join(
    b"q 0.7032352 0 0 -0.7032352 %s 522.62308 cm/c0 cs 0.2 scn\nBT 0 Tr/f0 9 Tf "
    b"1 0 0 -1 0 0 Tm(\\000%s)Tj\nET\nQ\n" % (place, letter)
    for place, letter in ((b"10", b"a"), (b"17.03235", b"\\("), (b"20", b"c"))
)


def tiny(content: bytes) -> bytes:
    """Write a PDF of one page as Typst does: plain objects and a plain list of them."""
    data = zlib.compress(content, 1)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R>>",
        b"<</Length %d/Filter/FlateDecode>>\nstream\n%s\nendstream" % (len(data), data),
        *[b"<</Type/StructElem/S/TD/P %d 0 R/K[57]/Pg 3 0 R>>" % n for n in range(200)],
    ]
    out, places = bytearray(b"%PDF-1.7\n%\x80\x80\x80\x80\n\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n\n" % (number, body)
    start = len(out)
    rows = b"".join(b"%010d 00000 n\r\n" % place for place in places)
    count = len(objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f\r\n%s" % (count, rows)
    out += b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (count, start)
    return bytes(out)


def streams(pdf: bytes) -> list[tuple[bytes, bytes]]:
    found = re.findall(rb"obj\n(<<[^\n]*>>)\nstream\n(.*?)\nendstream", pdf, re.DOTALL)
    return [(head, zlib.decompress(data)) for head, data in found]


def test_all_objects_are_found_again() -> None:
    before = tiny(b"0.123456789 0 0 1 0 0 cm\n" * 50)
    after = packed(before)
    assert len(after) < len(before) / 4
    assert after.startswith(b"%PDF-1.7")
    (content, held, places) = streams(after)
    assert content[1].startswith(b"0.1235 0 0 1 0 0 cm\n")
    assert b"/Type/Catalog" in held[1]
    assert held[1].count(b"/StructElem") == 200
    assert b"/Root 1 0 R" in places[0]
    assert len(places[1]) == 8 * (int(re.search(rb"/Size (\d+)", places[0])[1]))
    start = int(after.split(b"startxref\n")[1].split()[0])
    assert b"/Type/XRef" in after[start : start + 40]


def test_what_is_no_plain_pdf_is_left_alone() -> None:
    before = tiny(b"")
    assert packed(packed(before)) == packed(before)
    assert packed(before.replace(b"/Root", b"/Encrypt 9 0 R/Root")).count(b"ObjStm") == 0


def test_letters_of_a_line_share_a_block() -> None:
    text = shorter(LETTERS)
    assert text.count(b"BT") == 1
    assert b"(\\000a) Tj 10 0 Td(\\000\\()Tj" in text
    other = LETTERS.replace(b"522.62308", b"500", 1)
    assert shorter(other).count(b"BT") == 2  # the first stands on another line


def test_a_line_keeps_its_bends_and_its_ends() -> None:
    straight = [(float(x), 0.01 * (x % 2)) for x in range(50)]
    assert simplified(straight) == [straight[0], straight[-1]]
    bent = [*straight, (50.0, 9.0), *((float(x), 0.0) for x in range(51, 60))]
    assert (50.0, 9.0) in simplified(bent)


def test_transparent_fills_need_no_group_and_curves_stay() -> None:
    fill = '<path d="M 0 0 L 1 0 z" style="fill: #abcdef; opacity: 0.1"/>'
    assert "fill-opacity: 0.1" in slim(fill)
    both = '<path d="M 0 0 L 1 0 z" style="fill: #abcdef; opacity: 0.1; stroke: #000000"/>'
    assert slim(both) == both
    curve = f'<path d="M 0 0 C {"1.2345 2 3 " * 20}"/>'
    assert slim(curve) == curve
