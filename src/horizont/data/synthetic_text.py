"""Synthetic text whose best reachable perplexity is known exactly.

The words form a Markov chain over a vocabulary of ``V`` words. From word ``v`` the next one is

- with probability ``1 - f`` a fresh draw from a Zipf-Mandelbrot law ``q(w) ~ 1 / (w + 2.7)``
  (B. Mandelbrot, "An informational theory of the statistical structure of language", 1953);
- with probability ``f`` one of the ``m`` successors of ``v``, with probabilities ``s_1..s_m``.
  Successors are drawn from ``q`` once and for all, so that the law of single words stays close
  to Zipf's.

So ``P(w|v) = (1 - f) q(w) + f S(w|v)``. The stationary law solves ``p = (1 - f) q + f p S``; the
entropy rate is ``H = - sum_v p(v) sum_w P(w|v) ln P(w|v)`` nats a word (T. Cover, J. Thomas,
"Elements of Information Theory", theorem 4.2.4), and no model has a lower expected perplexity
than ``exp(H)``.

A fresh draw forgets the past. Hence the text falls into independent pieces and is generated piece
by piece in parallel, in as many passes as the longest piece has words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

SUCCESSOR_SHARES = (40, 20, 12, 8, 6, 5, 4, 3, 1, 1)  # percent
FOLLOW = 60  # percent: the probability f of going on to a successor
WARM_UP = 64  # words left out at the start, until the law of single words is the stationary one
ZIPF_SCALE = 10**9  # the weights of q are integers, so that drawing is exact
PASSES = 100  # of the fixed-point iteration; each shrinks the error by f
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class TextLaw:
    """The constants of one synthetic text: vocabulary size ``words`` and ``seed``."""

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


def _draw(words: int, count: int, stream: np.random.Generator) -> NDArray[np.int64]:
    edges = np.cumsum(_zipf_weights(words))
    places = stream.integers(edges[-1], size=count)
    return np.searchsorted(edges, places, side="right").astype(np.int64)


def successors(law: TextLaw) -> NDArray[np.int64]:
    """Return the successors of every word, shape (words, m); one may stand there twice."""
    count = law.words * len(SUCCESSOR_SHARES)
    return _draw(law.words, count, law.stream(0)).reshape(law.words, -1)


def generate(law: TextLaw, split: str, count: int) -> NDArray[np.int32]:
    """Return the first ``count`` words of a split, int32, shape (count,)."""
    part, total = 1 + SPLITS.index(split), count + WARM_UP
    # a stream for each kind of draw, so that a longer text begins like a shorter one
    follows = law.stream(part, 0).integers(100, size=total) < FOLLOW
    follows[0] = False  # there is nothing to follow
    edges, places = np.cumsum(SUCCESSOR_SHARES), law.stream(part, 1).integers(100, size=total)
    choice = np.searchsorted(edges, places, side="right")
    tokens = _draw(law.words, total, law.stream(part, 2))
    _walk(tokens, follows, choice, successors(law))
    return tokens[WARM_UP:].astype(np.int32)


def _walk(
    tokens: NDArray[np.int64],
    follows: NDArray[np.bool_],
    choice: NDArray[np.int64],
    after: NDArray[np.int64],
) -> None:
    """Overwrite every following word, all pieces one word further in each pass."""
    frontier = np.flatnonzero(~follows)
    while True:
        frontier = frontier[frontier + 1 < len(tokens)] + 1
        frontier = frontier[follows[frontier]]
        if not len(frontier):
            return
        tokens[frontier] = after[tokens[frontier - 1], choice[frontier]]


def successor_matrix(law: TextLaw) -> csr_matrix:
    """Return ``S``: sparse, shape (words, words), rows sum to one."""
    after = successors(law)
    rows = np.repeat(np.arange(law.words), after.shape[1])
    shares = np.tile(np.array(SUCCESSOR_SHARES) / 100, law.words)
    return csr_matrix((shares, (rows, after.ravel())), shape=(law.words, law.words))


def fresh_law(law: TextLaw) -> NDArray[np.float64]:
    """Return ``q``, shape (words,)."""
    weights = _zipf_weights(law.words)
    return np.asarray(weights / weights.sum())


def stationary_law(law: TextLaw) -> NDArray[np.float64]:
    """Return ``p``, shape (words,): the fixed point of ``p = (1 - f) q + f p S``."""
    fresh, follow = fresh_law(law), FOLLOW / 100
    backwards = successor_matrix(law).T.tocsr()
    single = fresh
    for _ in range(PASSES):
        single = (1 - follow) * fresh + follow * (backwards @ single)
    return np.asarray(single)


def entropy_rate(law: TextLaw) -> float:
    """Return ``H`` in nats a word.

    A row of ``P`` is ``(1 - f) q`` but at a few successors: the row's entropy is that of
    ``(1 - f) q``, corrected at those places.
    """
    follow = FOLLOW / 100
    base = (1 - follow) * fresh_law(law)
    steps = successor_matrix(law).tocoo()
    full = base[steps.col] + follow * steps.data
    change = _information(full) - _information(base[steps.col])
    rows = _information(base).sum() + np.bincount(steps.row, change, minlength=law.words)
    return float(stationary_law(law) @ rows)


def _information(share: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(-share * np.log(share))


def best_perplexity(law: TextLaw) -> float:
    """Return ``exp(H)``, rounded to six places so that it is the same on every machine."""
    return round(float(np.exp(entropy_rate(law))), 6)
