"""Figures for paper: the same lines with fewer points, and no layers that a printer need not have.

A tenth of a point is less than a dot of a printer with 600 dots an inch. Points that are nearer
than that to the line between their neighbours are left out (Douglas and Peucker, 1973).
"""

from __future__ import annotations

import base64
import io
import math
import re

#: How far a line may move, in points of the figure.
TOLERANCE = 0.1

#: Lines with fewer points stay as they are: a mark or a bar is nothing to simplify.
POINTS = 8

#: Smaller images are fields of numbers, whose edges are to stay sharp.
PIXELS = 20_000
QUALITY = 85

_PNG = re.compile(r"data:image/png;base64,([\w+/=\s]+)")
_PATH = re.compile(r'(<path [^>]*?\bd=")([^"]*)(")')
_STEP = re.compile(r"([ML])\s*(-?[\d.]+)[\s,]+(-?[\d.]+)\s*")
#: An opacity of what is only filled, or only drawn as a line: the default is a fill and no line.
_OPACITY = re.compile(
    r'(style="(?:(?=[^"]*fill: none)|(?![^"]*stroke: #))[^"]*?)(?<![-\w])opacity: ([\d.]+)'
)

Point = tuple[float, float]


def slim(svg: str) -> str:
    """Simplify the lines of a figure, compress its photographs, free fills of groups."""
    svg = _PNG.sub(lambda found: _photograph(found[1]), svg)
    svg = _PATH.sub(lambda found: found[1] + _shorter(found[2]) + found[3], svg)
    # A fill or a line alone looks the same so; `opacity` would need a group of its own.
    return _OPACITY.sub(r"\1fill-opacity: \2; stroke-opacity: \2", svg)


def _photograph(coded: str) -> str:
    """Compress an image as photographs are, if that makes it much smaller."""
    from PIL import Image

    before = base64.b64decode(coded)
    image = Image.open(io.BytesIO(before))
    if image.width * image.height <= PIXELS:
        return f"data:image/png;base64,{coded}"
    after = io.BytesIO()
    paper = Image.new("RGBA", image.size, "white")
    paper.alpha_composite(image.convert("RGBA"))
    paper.convert("RGB").save(after, "JPEG", quality=QUALITY, subsampling=0, optimize=True)
    if after.tell() > len(before) / 2:
        return f"data:image/png;base64,{coded}"
    return f"data:image/jpeg;base64,{base64.b64encode(after.getvalue()).decode()}"


def _shorter(path: str) -> str:
    """Simplify a path of straight lines; any other is left as it is."""
    steps = _STEP.findall(path)
    closed = path.rstrip().lower().endswith("z")
    if len(steps) < POINTS or _STEP.sub("", path).strip(" zZ\n"):
        return path
    strokes: list[list[Point]] = []
    for kind, x, y in steps:
        if kind == "M" or not strokes:
            strokes.append([])
        strokes[-1].append((float(x), float(y)))
    if closed and len(strokes) > 1:
        return path
    written = " ".join(_written(simplified(stroke)) for stroke in strokes)
    return f"{written} z" if closed else written


def _written(points: list[Point]) -> str:
    return "M " + " L ".join(f"{x:.1f} {y:.1f}" for x, y in points)


def simplified(points: list[Point], tolerance: float = TOLERANCE) -> list[Point]:
    """Leave out the points of a line that hardly bend it; its ends stay."""
    kept = {0, len(points) - 1}
    spans = [(0, len(points) - 1)]
    while spans:
        first, last = spans.pop()
        inner = range(first + 1, last)
        away = [(_distance(points[i], points[first], points[last]), i) for i in inner]
        far, at = max(away, default=(0.0, 0))
        if far > tolerance:
            kept.add(at)
            spans += [(first, at), (at, last)]
    return [points[i] for i in sorted(kept)]


def _distance(point: Point, start: Point, end: Point) -> float:
    """Measure from a point to the stretch between two others."""
    along = (end[0] - start[0], end[1] - start[1])
    length = along[0] ** 2 + along[1] ** 2
    offset = (point[0] - start[0], point[1] - start[1])
    share = (offset[0] * along[0] + offset[1] * along[1]) / length if length else 0.0
    share = min(1.0, max(0.0, share))
    return math.hypot(offset[0] - share * along[0], offset[1] - share * along[1])
