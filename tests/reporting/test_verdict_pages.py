"""Verdicts: sentences in which every number links to its records, tables, waterfalls."""

from __future__ import annotations

import re

import pytest
from record_maker import make_records

from horizont.analysis.drilldown import drilldowns as compute_drilldowns
from horizont.analysis.verdicts import pairwise_verdicts
from horizont.reporting import labels
from horizont.reporting.explanations import (
    TracedNumber,
    TracedSentence,
    explain_verdict,
    explain_verdicts,
)
from horizont.reporting.figures.waterfall import waterfall_figures
from horizont.reporting.verdicts import drilldown_table, self_comparison_sentence, verdict_table
from horizont.statistics.comparison import MARGIN

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def verdicts(records):
    return pairwise_verdicts(records, "verified")


@pytest.fixture(scope="module")
def drilldowns(records):
    return compute_drilldowns(records)


@pytest.fixture(scope="module")
def sentences(verdicts, drilldowns):
    return explain_verdicts(verdicts, drilldowns).items


def test_a_number_without_records_is_refused():
    with pytest.raises(ValueError, match="has no records"):
        TracedNumber("1.5", ())


def test_every_number_of_a_sentence_links_to_existing_records(sentences, records):
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


def test_no_measured_number_is_without_a_link(sentences):
    for sentence in sentences:
        words = "".join(piece for piece in sentence.pieces if isinstance(piece, str))
        words = re.sub(
            r"\(mxnet.*\)|\d+% interval|level of \d+%|within \d+%|of \d+ planned", "", words
        )
        assert not re.search(r"\d", words), words


def test_sentences_agree_with_the_table(sentences, verdicts):
    for sentence, (_, row) in zip(sentences, verdicts.iterrows(), strict=True):
        if row["outcome"] in ("A faster", "B faster"):
            ratio = row["ratio"] if row["outcome"] == "A faster" else 1 / row["ratio"]
            assert f"is {ratio:.2f} times as fast as" in sentence.text
            assert ratio > 1
        elif row["outcome"] == "equal":
            assert f"equally fast, within {MARGIN:.0%}" in sentence.text
        else:
            assert "not settled" in sentence.text.lower()


def test_the_slower_system_takes_longer_whether_it_is_a_or_b(sentences, verdicts):
    outcomes = set()
    for sentence, (_, row) in zip(sentences, verdicts.iterrows(), strict=True):
        if row["outcome"] in ("A faster", "B faster"):
            outcomes.add(row["outcome"])
            assert re.search(r"A timed step of .* is \d[\d.,]* ms longer", sentence.text)
            for slow, fast in re.findall(r"([\d.]+) ms against ([\d.]+) ms", sentence.text):
                assert float(slow) > float(fast)
    assert outcomes == {"A faster", "B faster"}


def test_weak_evidence_is_stated(sentences, records, drilldowns):
    assert any("no block has a run of both (mxnet/async" in each.text for each in sentences)
    decided = next(each.text for each in sentences if "times as fast" in each.text)
    assert "With 3 blocks the interval attains a level of 75% at best" in decided
    faster = [each.text for each in sentences if "times as fast" in each.text]
    assert sum("depends on the t test" in text for text in faster) == 1
    unverified = explain_verdicts(pairwise_verdicts(records), drilldowns).items
    assert all("are not compared: " in each.text for each in unverified)
    assert all(each.numbers == [] for each in unverified)


def test_an_unsettled_comparison_states_what_would_settle_it(verdicts, drilldowns):
    row = {**verdicts.iloc[0].to_dict(), "outcome": "not settled", "additional_blocks": 7.0}
    row |= {"disturbed": 2, "minimum_detectable_ratio": 1.3}
    names = {row["a"]: "This", row["b"]: "That"}
    text = explain_verdict(row, drilldowns[0], names).text
    assert text.startswith("Whether This or That is faster is not settled: ratio ")
    assert "can detect a ratio of 1.30 or more. About 7 more blocks would settle it." in text
    assert "Other programs or a set clock disturbed 2 of the runs." in text


def test_labels_are_as_short_as_possible():
    names = labels.short_labels(["pytorch/local", "mxnet/local", "mxnet/local+dynamic_alloc"])
    assert list(names.values()) == [
        "PyTorch", "MXNet (one process)", "MXNet (one process, no static memory)",
    ]  # fmt: skip


def test_tables_have_a_row_per_pair_and_part(verdicts, drilldowns):
    cells = verdict_table(verdicts).cells
    assert len(cells) == len(verdicts)
    assert not cells.isna().to_numpy().any()
    parts = drilldown_table(drilldowns)
    assert len(parts.groups) == len(drilldowns)
    assert "communication + update" in parts.html()


def test_each_system_is_compared_with_itself(tmp_path, records):
    assert "No system has 6 successful runs" in self_comparison_sentence(records).text
    systems = ["pytorch/local", "mxnet/local"]
    six = make_records(tmp_path, "local", blocks=6, systems=systems, failed=("mxnet/local",))
    sentence = self_comparison_sentence(six)
    assert sentence.is_good
    assert re.match(r"\d of 100 verdicts on a system and itself are false: \d", sentence.text)
    assert sentence.text.endswith("Systems with enough runs: 1 of 2, in groups of 3 runs.")


def test_waterfalls_end_at_the_slower_step(drilldowns, records):
    verdicts = pairwise_verdicts(records, "verified")
    outputs = waterfall_figures(drilldowns, verdicts).items
    # The fastest system against those of the others that have a run.
    assert len(outputs) == 3
    fastest = re.match("From an instrumented step of (.*) to one of", outputs[0].caption).group(1)
    apart = [
        fastest in (labels.system_label(a), labels.system_label(b))
        for a, b in verdicts[["a", "b"]].values
    ]
    verdicts.loc[apart, "outcome"] = "not comparable"
    captions = [output.caption for output in waterfall_figures(drilldowns, verdicts).items]
    assert captions
    assert not any(fastest in caption for caption in captions)
    for output in outputs:
        (axes,) = output.figure.axes
        first, last, *steps = axes.patches
        end = steps[-1].get_x() + steps[-1].get_width()
        assert end == pytest.approx(last.get_width(), rel=0.01)
        assert steps[0].get_x() == pytest.approx(first.get_width())
        assert first.get_width() < last.get_width()
        assert "PyTorch" in output.svg()


def test_the_text_of_a_sentence_is_escaped():
    sentence = TracedSentence(("5 < 6: ", TracedNumber("7.0 ms", ("a<b",))))
    html = sentence._repr_mimebundle_()[0]["text/html"]
    assert "5 &lt; 6" in html
    assert "a&lt;b" in html
    assert sentence.text == "5 < 6: 7.0 ms"
