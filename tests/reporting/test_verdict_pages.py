"""The verdict chapter: sentences built from numbers, each of which leads to its records."""

from __future__ import annotations

import re

import pytest

from horizont import reporting
from horizont.analysis import drilldown
from horizont.analysis.verdicts import pairwise_verdicts
from horizont.reporting import explanations
from horizont.reporting.explanations import TracedNumber, TracedSentence
from horizont.statistics.comparison import MARGIN

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def verdicts(records):
    return pairwise_verdicts(records, "verified")


@pytest.fixture(scope="module")
def drilldowns(records):
    return drilldown.drilldowns(records)


@pytest.fixture(scope="module")
def sentences(verdicts, drilldowns):
    return reporting.explain_verdicts(verdicts, drilldowns)


def test_a_number_without_a_record_is_refused():
    with pytest.raises(ValueError, match="rests on no record"):
        TracedNumber("1.5", ())


def test_every_number_of_a_sentence_leads_to_records_that_exist(sentences, records):
    known = {record.folder.name for record in records}
    for sentence in sentences:
        page, metadata = sentence._repr_mimebundle_()
        html = page["text/html"]
        links = re.findall(r'href="#([^"]+)"', html)
        assert len(links) == len(sentence.numbers)
        assert set(links) == set(re.findall(r'<ul id="([^"]+)"', html))
        for number in metadata["horizont"]["numbers"]:
            assert set(number["records"]) <= known
            assert all(name in html for name in number["records"])


def test_no_measured_number_stands_outside_of_a_link(sentences):
    for sentence in sentences:
        bare = "".join(piece for piece in sentence.pieces if isinstance(piece, str))
        bare = re.sub(
            r"\(mxnet.*\)|\d+% interval|promise \d+%|within \d+%|of \d+ planned", "", bare
        )
        assert not re.search(r"\d", bare), bare


def test_the_sentence_says_what_the_table_says(sentences, verdicts):
    for sentence, (_, row) in zip(sentences, verdicts.iterrows(), strict=True):
        if row["outcome"] in ("A faster", "B faster"):
            ratio = row["ratio"] if row["outcome"] == "A faster" else 1 / row["ratio"]
            assert f"is {ratio:.2f} times as fast as" in sentence.text
            assert ratio > 1
        elif row["outcome"] == "equal":
            assert f"equally fast, within {MARGIN:.0%}" in sentence.text
        else:
            assert "not settled" in sentence.text.lower()


def test_thin_evidence_is_said(sentences, records, drilldowns):
    assert any("no block has a run of both (mxnet/async" in each.text for each in sentences)
    settled = next(each.text for each in sentences if "times as fast" in each.text)
    assert "With 3 blocks the interval can promise 75% at best" in settled
    unproven = reporting.explain_verdicts(pairwise_verdicts(records), drilldowns)
    assert all("are not compared: " in each.text for each in unproven)
    assert all(each.numbers == [] for each in unproven)


def test_an_open_comparison_says_what_would_settle_it(verdicts, drilldowns):
    row = {**verdicts.iloc[0].to_dict(), "outcome": "not settled", "additional_blocks": 7.0}
    row |= {"disturbed": 2, "minimum_detectable_ratio": 1.3}
    names = {row["a"]: "This", row["b"]: "That"}
    text = explanations.explain_verdict(row, drilldowns[0], names).text
    assert text.startswith("Whether This or That is faster is not settled: ratio ")
    assert "find a ratio of 1.30 or more. About 7 more would settle it." in text
    assert "Other programs disturbed 2 of the runs." in text


def test_names_are_as_short_as_they_can_be():
    names = explanations.short_names(["pytorch/local", "mxnet/local", "mxnet/local+dynamic_alloc"])
    assert list(names.values()) == [
        "PyTorch", "MXNet (one process)", "MXNet (one process, no static memory)",
    ]  # fmt: skip


def test_tables_have_a_row_for_each_pair_and_part(verdicts, drilldowns):
    cells = reporting.verdict_table(verdicts).cells
    assert len(cells) == len(verdicts)
    assert not cells.isna().to_numpy().any()
    parts = reporting.drilldown_table(drilldowns)
    assert len(parts.groups) == len(drilldowns)
    assert "communication + update" in parts.html()


def test_the_waterfall_ends_where_it_should(drilldowns):
    pictures = reporting.waterfall_figures(drilldowns)
    # The fastest system against those of the others that have a run.
    assert len(pictures) == 3
    for picture in pictures:
        (axes,) = picture.figure.axes
        first, last, *strides = axes.patches
        end = strides[-1].get_x() + strides[-1].get_width()
        assert end == pytest.approx(last.get_width(), rel=0.01)
        assert strides[0].get_x() == pytest.approx(first.get_width())
        assert first.get_width() < last.get_width()
        assert "PyTorch" in picture.svg()


def test_a_sentence_keeps_its_text_as_text():
    sentence = TracedSentence(("5 < 6: ", TracedNumber("7.0 ms", ("a<b",))))
    html = sentence._repr_mimebundle_()[0]["text/html"]
    assert "5 &lt; 6" in html
    assert "a&lt;b" in html
    assert sentence.text == "5 < 6: 7.0 ms"
