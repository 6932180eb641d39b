"""Synthetic text with a known best perplexity.

The words form a Markov chain over a vocabulary of ``V`` words. The word after ``v`` is

- with probability ``1 - f`` drawn from a Zipf-Mandelbrot law ``q(w) ~ 1 / (w + 2.7)``
  (B. Mandelbrot, "An informational theory of the statistical structure of language", 1953);
- with probability ``f`` one of the ``m`` successors of ``v``, with probabilities ``s_1..s_m``.
  Successors are drawn from ``q`` once, so that the distribution of single words stays close to
  Zipf's.

So ``P(w|v) = (1 - f) q(w) + f S(w|v)``. The stationary distribution solves ``p = (1 - f) q +
f p S``; the entropy rate is ``H = - sum_v p(v) sum_w P(w|v) ln P(w|v)`` nats a word (T. Cover,
J. Thomas, "Elements of Information Theory", theorem 4.2.4), and no model has a lower expected
perplexity than ``exp(H)``.

A draw from ``q`` does not depend on the word before. Hence the text consists of independent
pieces, which are generated in parallel, in as many passes as the longest piece has words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import entr

SUCCESSOR_PERCENTAGES = (40, 20, 12, 8, 6, 5, 4, 3, 1, 1)
#: The probability ``f`` of a successor, in percent.
SUCCESSOR_PERCENT = 60
#: Words dropped at the start, until single words follow the stationary distribution.
BURN_IN_WORDS = 64
#: The weights of ``q`` are integers, so that draws are exact.
ZIPF_SCALE = 10**9
#: Iterations to the stationary distribution; each reduces the error by the factor ``f``.
FIXED_POINT_ITERATIONS = 100
TEXT_SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class TextDistribution:
    """The constants of a synthetic text: vocabulary size ``words`` and ``seed``."""

    words: int
    seed: int = 0

    def stream(self, *path: int) -> np.random.Generator:
        """Return the independent random stream with this address."""
        address = np.random.SeedSequence([self.seed, self.words, *path])
        return np.random.Generator(np.random.PCG64(address))

    def vocabulary(self) -> tuple[str, ...]:
        """Return the words; the most frequent one ends a sentence."""
        return ("<eos>", *(f"w{index:04d}" for index in range(1, self.words)))


def _zipf_weights(words: int) -> NDArray[np.int64]:
    return np.asarray(np.rint(ZIPF_SCALE / (np.arange(words) + 2.7)), np.int64)


def _draw_zipf(words: int, count: int, stream: np.random.Generator) -> NDArray[np.int64]:
    edges = np.cumsum(_zipf_weights(words))
    draws = stream.integers(edges[-1], size=count)
    return np.searchsorted(edges, draws, side="right").astype(np.int64)


def successors(distribution: TextDistribution) -> NDArray[np.int64]:
    """Return the successors of every word, shape (words, m); a successor may appear twice."""
    count = distribution.words * len(SUCCESSOR_PERCENTAGES)
    drawn = _draw_zipf(distribution.words, count, distribution.stream(0))
    return drawn.reshape(distribution.words, -1)


def generate_text(distribution: TextDistribution, split: str, count: int) -> NDArray[np.int32]:
    """Return the first ``count`` words of a split, int32, shape (count,)."""
    part, total = 1 + TEXT_SPLITS.index(split), count + BURN_IN_WORDS
    # A stream for each kind of draw, so that a longer text begins like a shorter one.
    follows = distribution.stream(part, 0).integers(100, size=total) < SUCCESSOR_PERCENT
    follows[0] = False  # there is no word before
    draws = distribution.stream(part, 1).integers(100, size=total)
    choice = np.searchsorted(np.cumsum(SUCCESSOR_PERCENTAGES), draws, side="right")
    tokens = _draw_zipf(distribution.words, total, distribution.stream(part, 2))
    _follow_successors(tokens, follows, choice, successors(distribution))
    return tokens[BURN_IN_WORDS:].astype(np.int32)


def _follow_successors(
    tokens: NDArray[np.int64],
    follows: NDArray[np.bool_],
    choice: NDArray[np.int64],
    successors_of: NDArray[np.int64],
) -> None:
    """Replace every word that follows another one, one word of all pieces in each pass."""
    frontier = np.flatnonzero(~follows)
    while True:
        frontier = frontier[frontier + 1 < len(tokens)] + 1
        frontier = frontier[follows[frontier]]
        if not len(frontier):
            return
        tokens[frontier] = successors_of[tokens[frontier - 1], choice[frontier]]


def successor_matrix(distribution: TextDistribution) -> csr_matrix:
    """Return ``S``: sparse, shape (words, words), rows sum to one."""
    targets = successors(distribution)
    rows = np.repeat(np.arange(distribution.words), targets.shape[1])
    probabilities = np.tile(np.array(SUCCESSOR_PERCENTAGES) / 100, distribution.words)
    shape = (distribution.words, distribution.words)
    return csr_matrix((probabilities, (rows, targets.ravel())), shape=shape)


def zipf_distribution(distribution: TextDistribution) -> NDArray[np.float64]:
    """Return ``q``, shape (words,)."""
    weights = _zipf_weights(distribution.words)
    return np.asarray(weights / weights.sum())


def stationary_distribution(distribution: TextDistribution) -> NDArray[np.float64]:
    """Return ``p``, shape (words,), the fixed point of ``p = (1 - f) q + f p S``."""
    zipf, follow = zipf_distribution(distribution), SUCCESSOR_PERCENT / 100
    transposed = successor_matrix(distribution).T.tocsr()
    stationary = zipf
    for _ in range(FIXED_POINT_ITERATIONS):
        stationary = (1 - follow) * zipf + follow * (transposed @ stationary)
    return np.asarray(stationary)


def entropy_rate(distribution: TextDistribution) -> float:
    """Return ``H`` in nats a word.

    A row of ``P`` is ``(1 - f) q`` but for a few successors: the entropy of the row is that of
    ``(1 - f) q``, corrected at these columns.
    """
    follow = SUCCESSOR_PERCENT / 100
    base = (1 - follow) * zipf_distribution(distribution)
    matrix = successor_matrix(distribution).tocoo()
    full = base[matrix.col] + follow * matrix.data
    change = entr(full) - entr(base[matrix.col])
    rows = np.bincount(matrix.row, change, minlength=distribution.words) + entr(base).sum()
    return float(stationary_distribution(distribution) @ rows)


def best_perplexity(distribution: TextDistribution) -> float:
    """Return ``exp(H)``, rounded to six places so that it is the same on every machine."""
    return round(float(np.exp(entropy_rate(distribution))), 6)
