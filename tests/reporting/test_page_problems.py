"""The check of pages in a browser finds what is wrong with them."""

from __future__ import annotations

import pytest
from tests.browser import BROWSER, open_browser
from tests.page_problems import page_problems

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium here to open a page with")

LONG = "a_word_of_many_letters_that_no_browser_breaks_and_that_is_wider_than_a_phone"

#: What stands on a page, and what is to be found about it.
DEFECTS = {
    f"<p>{LONG}{LONG}</p>": "wider than the window",
    f'<p style="overflow: hidden; white-space: nowrap">{LONG * 3}</p>': "cut: p",
    '<img src="none.png" width="10" height="10">': "no image",
    "<figure></figure>": "empty figure",
    '<svg width="100" height="100"></svg>': "empty drawing",
    '<p><a href="none.html">there</a></p>': "dead link",
    '<p><a href="#none">there</a></p>': "dead anchor",
    "<script>throw new Error('an error of a script')</script>": "an error of a script",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Open a sound page, and one for each defect."""
    folder = tmp_path_factory.mktemp("pages")
    head = '<!doctype html><meta charset="utf-8"><style>figure, svg, img {width: 100px}</style>'
    sound = f'{head}<h1 id="top">A page</h1><p>Text.</p><a href="#top">up</a>'
    files = [folder / "sound.html", *(folder / f"{n}.html" for n in range(len(DEFECTS)))]
    for file, body in zip(files, ["", *DEFECTS], strict=True):
        file.write_text(f"{sound}{body}")
    with open_browser(folder / "profile") as page:
        return page_problems(page, files)


@pytest.mark.parametrize(("number", "problem"), list(enumerate(DEFECTS.values())))
def test_each_defect_is_found(found: list[str], number: int, problem: str) -> None:
    own = [line for line in found if line.startswith(f"{number}.html")]
    assert any(problem in line for line in own), own


def test_nothing_is_found_on_a_sound_page(found: list[str]) -> None:
    assert [line for line in found if line.startswith("sound")] == []
