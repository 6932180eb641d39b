"""What each chapter asks of the frameworks."""

from __future__ import annotations

from collections.abc import Callable

from horizont.theory import (
    backpropagation,
    blocks,
    filters,
    landscapes,
    memory,
    neuron,
    parallelism,
    performance,
    ring,
    staleness,
    tutorial,
)
from horizont.theory.questions import Question

#: Chapter -> what makes its questions.
CHAPTERS: dict[str, Callable[[], list[Question]]] = {
    "neuron": neuron.questions,
    "descent": landscapes.questions,
    "backpropagation": backpropagation.questions,
    "convolution": filters.questions,
    "blocks": blocks.questions,
    "recurrence": memory.questions,
    "metrics": performance.questions,
    "parallelism": parallelism.questions,
    "ring": ring.questions,
    "staleness": staleness.questions,
    "tutorial": tutorial.questions,
}


def chapter_names() -> list[str]:
    """List the chapters that ask something."""
    return list(CHAPTERS)


def questions_of(chapter: str) -> list[Question]:
    """List the questions of a chapter, named `<chapter>/<question>`.

    Raises
    ------
    ValueError
        If there is no such chapter.
    """
    if chapter not in CHAPTERS:
        raise ValueError(f"no chapter {chapter!r}; there are {', '.join(CHAPTERS)}")
    return CHAPTERS[chapter]()
