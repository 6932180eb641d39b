"""The link check: it follows what there is, and a link that is broken on purpose is caught."""

from __future__ import annotations

from pathlib import Path

import pytest

from horizont.errors import UserError
from horizont.reporting.linkcheck import check_links
from horizont.workflow.book import check_site
from horizont.workflow.paths import Paths

PAGES = {
    "index.html": '<a href="sub/other.html#there">o</a><a href="#here">h</a><p id="here">'
    '<link rel="stylesheet" href="style.css?v=1"><script src="s.js"></script>'
    '<a href="https://example.org/paper">p</a><a href="data:text/csv,a">d</a>',
    "sub/other.html": '<img src="../i%20j.svg" srcset="../i%20j.svg 2x"><h2 id="there">t</h2>'
    '<style>p { background: url("../i%20j.svg") }</style><svg><use xlink:href="#there"/></svg>',
    "style.css": "p { background: url(data:image/png;base64,AA), url('i j.svg#x') }",
    "s.js": "",
    "i j.svg": "<svg/>",
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "reports" / "book"
    for name, text in PAGES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def change(site: Path, name: str, old: str, new: str) -> None:
    text = (site / name).read_text()
    assert old in text
    (site / name).write_text(text.replace(old, new))


def test_a_whole_site_has_no_faults_and_what_leads_outside_is_listed(site: Path) -> None:
    report = check_links(site)
    assert report.faults == ()
    assert report.outside == ("https://example.org/paper",)
    assert report.followed == 9


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("index.html", "sub/other.html#there", "sub/gone.html", "sub/gone.html is not there"),
        ("index.html", "#there", "#nowhere", "no place 'nowhere'"),
        ("index.html", "#here", "#nowhere", "no place 'nowhere'"),
        ("index.html", 'src="s.js"', 'src="https://cdn.example.org/s.js"', "from elsewhere"),
        ("index.html", 'href="style.css?v=1"', 'href="//example.org/a.css"', "from elsewhere"),
        ("index.html", 'href="#here"', 'href="../../secret.html"', "out of the site"),
        ("sub/other.html", 'src="../i%20j.svg"', 'src="gone.png"', "gone.png is not there"),
        ("sub/other.html", 'srcset="../i', 'srcset="../k', "k%20j.svg is not there"),
        ("sub/other.html", 'url("../i', 'url("../k', "k%20j.svg is not there"),
        ("sub/other.html", 'use xlink:href="#there"', 'use xlink:href="#gone"', "no place"),
        ("style.css", "'i j.svg#x'", "'https://fonts.example.org/f.woff'", "from elsewhere"),
    ],
)
def test_what_is_broken_is_caught(site: Path, name: str, old: str, new: str, said: str) -> None:
    change(site, name, old, new)
    (fault,) = check_links(site).faults
    assert fault.startswith(f"{name}: ")
    assert said in fault


def test_the_pipeline_stops_at_a_dead_link(site: Path) -> None:
    paths = Paths(site.parents[1])
    assert check_site(paths).followed == 9
    (site / "s.js").unlink()
    with pytest.raises(UserError, match=r"index\.html: s\.js is not there"):
        check_site(paths)


def test_without_a_site_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="horizont book"):
        check_site(Paths(tmp_path))
