"""What is wrong with a page in a browser: errors, cut or overlapping text, empty figures, links."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.browser import Page

#: A window on a desk, and those of phones, in pixels.
WIDTHS = (1280, 390, 360)

_FIND = """
(() => {
  const problems = [], name = (one) => one.tagName.toLowerCase()
    + (one.id ? "#" + one.id : "") + (one.className?.baseVal ?? "." + one.className);
  const shown = (one) => one.checkVisibility() && one.getBoundingClientRect().width > 0;
  const main = document.querySelector("article") ?? document.body;
  if (document.documentElement.scrollWidth > innerWidth + 1)
    problems.push(`wider than the window: ${document.documentElement.scrollWidth} pixels`);
  for (const one of main.querySelectorAll("img"))
    if (shown(one) && one.complete && one.naturalWidth === 0) problems.push("no image: " + one.src);
  for (const one of main.querySelectorAll("figure"))
    if (shown(one) && !one.textContent.trim() && !one.querySelector("img, svg"))
      problems.push("empty figure");
  for (const one of main.querySelectorAll("svg"))
    if (shown(one) && one.getBoundingClientRect().width > 60
        && !one.querySelector("path, text, use"))
      problems.push("empty drawing: " + name(one));
  const texts = "p, li, td, th, figcaption, h1, h2, h3, summary, dt, dd";
  for (const one of main.querySelectorAll(texts)) {
    if (!shown(one)) continue;
    const hides = ["hidden", "clip"].includes(getComputedStyle(one).overflowX);
    if (hides && one.scrollWidth > one.clientWidth + 1)
      problems.push("cut: " + name(one) + " " + one.textContent.trim().slice(0, 50));
    const scrolls = one.closest(
      ".hz-table, .table-wrapper, .pst-scrollable-table-container, pre, .math, figure");
    if (!scrolls && one.getBoundingClientRect().right > innerWidth + 1)
      problems.push("beyond the edge: " + name(one) + " " + one.textContent.trim().slice(0, 50));
  }
  const links = [...document.querySelectorAll("a[href]")].map((one) => one.href);
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  return {problems, links, ids};
})()
"""


def page_problems(page: Page, files: Sequence[Path]) -> list[str]:
    """Open the pages of a book in each width, and list what is wrong with them."""
    problems: list[str] = []
    ids: dict[Path, set[str]] = {}
    links: dict[str, Path] = {}
    for file in files:
        for width in WIDTHS:
            page.errors.clear()
            page.open(file.as_uri(), width)
            found = page.evaluate(_FIND)
            problems += [
                f"{file.name}, {width}: {one}" for one in [*found["problems"], *page.errors]
            ]
        ids[file] = set(found["ids"])
        links |= dict.fromkeys((link for link in found["links"] if link.startswith("file:")), file)
    for link, file in links.items():
        parts = urlsplit(link)
        target = Path(unquote(parts.path))
        if not target.exists():
            problems.append(f"{file.name}: dead link {link}")
        elif parts.fragment and unquote(parts.fragment) not in ids.get(target, {parts.fragment}):
            problems.append(f"{file.name}: dead anchor {link}")
    return problems
