"""Holding a built site against itself: addresses lead somewhere, and nothing comes from afar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes by which a page loads or names something.
_ATTRIBUTES = ("href", "src", "srcset", "poster", "data", "action", "xlink:href")

#: Tags that only lead to something when they are followed.
_FOLLOWED = frozenset({"a", "area", "form"})

#: Links of a page's head that name something and load nothing.
_NAMING = frozenset({"canonical", "alternate", "author", "license", "next", "prev", "search"})

_URL = re.compile(r"""url\(\s*["']?([^"')]+)["']?\s*\)|@import\s+["']([^"']+)["']""")

_INNER = ("data", "mailto", "javascript", "about", "blob")


@dataclass(frozen=True)
class Report:
    """What became of the addresses of a site.

    Attributes
    ----------
    faults
        Dead addresses, and what would be loaded from elsewhere; a line each.
    outside
        Addresses outside of the site that readers may follow.
    followed
        How many addresses inside of the site were followed.
    """

    faults: tuple[str, ...]
    outside: tuple[str, ...]
    followed: int


@dataclass
class _Document(HTMLParser):
    """The addresses in a page, and its own places."""

    places: set[str] = field(default_factory=set)
    uses: list[tuple[str, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._styles = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the places and addresses of a tag."""
        said = {name: value or "" for name, value in attrs}
        self.places.update(said[name] for name in ("id", "name") if name in said)
        self._styles = tag == "style"
        naming = tag == "link" and said.get("rel", "") in _NAMING
        for name in _ATTRIBUTES:
            for address in _addresses(name, said.get(name, "")) if tag != "meta" else ():
                self.uses.append((address, tag in _FOLLOWED or naming))
        self.uses += [(address, False) for address in _styled(said.get("style", ""))]

    def handle_data(self, data: str) -> None:
        """Note what styles inside of the page load."""
        if self._styles:
            self.uses += [(address, False) for address in _styled(data)]

    def handle_endtag(self, tag: str) -> None:
        """Leave a style sheet."""
        self._styles = self._styles and tag != "style"


def _addresses(attribute: str, value: str) -> list[str]:
    """Take the addresses out of a value; a set of sources has one before each comma."""
    if attribute == "srcset":
        return [part.split()[0] for part in value.split(",") if part.strip()]
    return [value] if value.strip() else []


def _styled(text: str) -> list[str]:
    return [first or second for first, second in _URL.findall(text)]


def check_links(site: Path) -> Report:
    """Follow every address of every page and style sheet of a site.

    Parameters
    ----------
    site
        The folder of the site.
    """
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    places = {path.resolve(): page.places for path, page in pages.items()}
    faults: list[str] = []
    outside: set[str] = set()
    followed = 0
    for path, address, is_link in _uses(site, pages):
        kind = urlsplit(address).scheme
        if kind in _INNER:
            continue
        if kind or address.startswith("//"):
            outside.add(address)
            if not is_link:
                faults.append(f"{path.relative_to(site)}: {address} would be loaded from elsewhere")
            continue
        followed += 1
        if fault := _fault(site, path, address, places):
            faults.append(f"{path.relative_to(site)}: {fault}")
    return Report(tuple(dict.fromkeys(faults)), tuple(sorted(outside)), followed)


def _uses(site: Path, pages: Mapping[Path, _Document]) -> Iterator[tuple[Path, str, bool]]:
    """List file, address, and whether it is a link that a reader may follow."""
    for path, page in pages.items():
        for address, is_link in page.uses:
            yield path, address, is_link
    for path in sorted(site.rglob("*.css")):
        for address in _styled(path.read_text(encoding="utf-8")):
            yield path, address, False


def _read(path: Path) -> _Document:
    page = _Document()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _fault(site: Path, path: Path, address: str, places: Mapping[Path, set[str]]) -> str:
    """Say what is wrong with an address inside of the site; nothing if it leads somewhere."""
    parts = urlsplit(address)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site.resolve()):
        return f"{address} leads out of the site"
    if not target.exists():
        return f"{address} is not there"
    place = unquote(parts.fragment)
    if place and target in places and place not in places[target] and place != "top":
        return f"{address}: the page has no place {place!r}"
    return ""
