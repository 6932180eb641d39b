"""A queueing model of asynchronous training, for more workers than the machine has room for.

N workers circulate in a closed network: each computes on its own CPU, then its gradients queue for
the servers, which reply with the new weights. Links and CPU of a server work at the same time,
because a message consists of many tensors and is sent as it is computed: together they are one
station, with the time of the slowest. With Z the seconds of a step outside this queue and D those
that the servers need for an update, exact mean value analysis gives the throughput X for
n = 1, ..., N (Reiser and Lavenberg, "Mean-value analysis of closed multichain queuing networks",
JACM 27, 1980):

    R(n) = D (1 + Q(n - 1)),   X(n) = n / (Z + R(n)),   Q(n) = X(n) R(n)

It is exact for processor sharing and for exponential service in order of arrival. Constant service
times in order of arrival cause less waiting. Z and D are fitted to the throughput of few workers
and to the CPU time of an update. Two approximations are added:

* S servers hold equal slices and are visited at once: R(n) = D / S (H_S + Q(n - 1)), where
  H_S = 1 + 1/2 + ... + 1/S (Varki, "Mean value technique for closed fork-join networks",
  SIGMETRICS 1999).
* A server on the host of each worker has precedence there: what it needs for the other workers is
  missing from CPU and link of its host, whose times grow by 1 / (1 - its utilisation) (Sevcik,
  "Priority scheduling disciplines in queueing network models of computer systems", IFIP 1977).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq, least_squares
from scipy.stats import norm
from scipy.stats import t as student_t

from horizont.statistics.intervals import Estimate

#: The model is fitted to the throughput of at most so many workers, and validated beyond.
MAX_FITTED_WORKERS = 5

#: The confidence level of its intervals.
LEVEL = 0.9
_RESAMPLES = 200
_SEED = 20210

#: Least fitted time, relative to the longest measured step of a worker.
_LEAST_TIME = 1e-6

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Arrangement:
    """The servers, and the seconds that a host's link needs for all gradients of a step.

    The weights take as long. A link without a limit needs no time.

    Attributes
    ----------
    servers
        On hosts of their own; 0 for one on the host of each worker.
    uplink_s, downlink_s
        For what a host sends, and for what it receives.
    """

    servers: int = 1
    uplink_s: float = 0.0
    downlink_s: float = 0.0

    @property
    def transfer_s(self) -> float:
        """Seconds of the slower direction."""
        return max(self.uplink_s, self.downlink_s)


@dataclass(frozen=True)
class Demands:
    """The fitted times of a step without contention, in seconds.

    Attributes
    ----------
    worker_s
        Outside the servers: computing, and delays that do not depend on other workers.
    update_s
        Of all servers together; on hosts of their own at least `Arrangement.transfer_s`.
    """

    worker_s: float
    update_s: float


def throughput(demands: Demands, arrangement: Arrangement, workers: int) -> Array:
    """Compute the updates per second with 1, 2, ... workers, shape (workers,)."""
    if arrangement.servers:
        service_s = demands.update_s / arrangement.servers
        return mean_value_analysis(demands.worker_s, service_s, workers, arrangement.servers)
    return np.array([_colocated(demands, arrangement, n + 1) for n in range(workers)])


def mean_value_analysis(think_s: float, service_s: float, customers: int, queues: int = 1) -> Array:
    """Compute the throughput of a closed network with 1, 2, ... customers, shape (customers,).

    Parameters
    ----------
    think_s
        Seconds of a cycle outside the station.
    service_s
        Seconds of a cycle in the service of each of its queues.
    queues
        Equal queues, which a customer joins at once and leaves when it has been served by all.
    """
    own, waiting, rates = _harmonic(queues), 0.0, np.empty(customers)
    for index in range(customers):
        response_s = service_s * (own + waiting)
        rates[index] = (index + 1) / (think_s + response_s)
        waiting = rates[index] * response_s
    return rates


def _harmonic(number: int) -> float:
    return sum(1.0 / term for term in range(1, number + 1))


def _colocated(demands: Demands, arrangement: Arrangement, workers: int) -> float:
    """Compute the updates per second with a server on the host of each worker.

    With x the steps per second of a worker, f = (N - 1) / N the part of the other workers and T the
    seconds of a transfer:

        1 / x = (Z + H_N D / N) / (1 - x f D) + 2 f T / (1 - x f T)
    """
    others = (workers - 1) / workers
    own_s = demands.worker_s + _harmonic(workers) * demands.update_s / workers
    transfer_s = others * arrangement.transfer_s

    def excess(rate: float) -> float:
        cpu_s = own_s / (1.0 - rate * others * demands.update_s)
        return rate * (cpu_s + 2.0 * transfer_s / (1.0 - rate * transfer_s)) - 1.0

    highest = 1.0 / max(demands.worker_s + demands.update_s, transfer_s * (1.0 + 1e-9))
    return workers * float(brentq(excess, 0.0, highest)) if workers > 1 else highest


def fit(workers: Array, rates: Array, arrangement: Arrangement, update_s: float = nan) -> Demands:
    """Fit the times to measured throughput, by least squares on its logarithm.

    Parameters
    ----------
    workers, rates
        Numbers of workers and updates per second, shape (points,).
    update_s
        The CPU time of the servers per update, as measured, which counts like a further point
        (utilisation law; Lazowska et al., "Quantitative System Performance", 1984): as long as no
        server is busy, the throughput hardly depends on it. NaN if unknown.
    """
    index, scale_s = workers.astype(int) - 1, float(np.max(workers / rates))
    least = max(_LEAST_TIME, arrangement.transfer_s / scale_s if arrangement.servers else 0.0)
    low, high = np.log([_LEAST_TIME, least]), np.log([1.0, max(1.0, 2.0 * least)])

    measured = [max(update_s, scale_s * least)] if update_s > 0 else []

    def residuals(logs: Array) -> Array:
        demands = Demands(*(scale_s * np.exp(logs)))
        model = throughput(demands, arrangement, int(index.max()) + 1)[index]
        return np.log([*model / rates, *(demands.update_s / known_s for known_s in measured)])

    start = np.log([0.9, 1.1 * max(0.1, least)])
    fitted = least_squares(residuals, np.clip(start, low + 1e-6, high - 1e-6), bounds=(low, high))
    return Demands(*map(float, scale_s * np.exp(fitted.x)))


@dataclass(frozen=True)
class CapacityModel:
    """A fitted model.

    Attributes
    ----------
    refits
        The times fitted to resampled blocks.
    residuals
        Logarithms of measured to modelled throughput of the fitted points, one for each of the
        refits: the mean of as many as there are blocks, drawn with replacement.
    blocks
        Number of blocks that it was fitted to.
    """

    arrangement: Arrangement
    demands: Demands
    refits: tuple[Demands, ...]
    residuals: Array
    blocks: int

    def predict(self, workers: Sequence[int]) -> list[Estimate]:
        """Predict the updates per second that would be measured with each number of workers.

        The interval consists of the quantiles of refits and residuals, expanded for the few blocks
        that they are drawn from (Hesterberg, "What teachers should know about the bootstrap", The
        American Statistician 69, 2015, section 4): their variance is too small by (n - 1) / n, and
        the variance itself is estimated, as Student's t takes into account.
        """
        index = np.asarray(workers) - 1
        rates = {
            demands: throughput(demands, self.arrangement, int(index.max()) + 1)[index]
            for demands in {self.demands, *self.refits}
        }
        values = rates[self.demands]
        logs = np.log([rates[demands] for demands in self.refits] / values)
        logs += self.residuals[:, np.newaxis]
        tails = np.quantile(logs, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=0)
        lows, highs = values * np.exp(tails * _expansion(self.blocks))
        return [
            Estimate(float(value), float(low), float(high), LEVEL, self.blocks)
            for value, low, high in zip(values, lows, highs, strict=True)
        ]


def _expansion(blocks: int) -> float:
    degrees, tail = max(blocks - 1, 1), (1.0 + LEVEL) / 2.0
    return float(np.sqrt(blocks / degrees) * student_t.ppf(tail, degrees) / norm.ppf(tail))


def calibrate(points: pd.DataFrame, arrangement: Arrangement) -> CapacityModel:
    """Fit a model to the medians over the blocks, and again to those of resampled blocks.

    Parameters
    ----------
    points
        ``workers``, ``block``, ``updates_per_s`` of all workers and ``update_s`` (see `fit`), of
        which the values with most workers are used: an idle server takes longer for an update. Rows
        of more than `MAX_FITTED_WORKERS` are not used.
    """
    fitted = points[points["workers"] <= MAX_FITTED_WORKERS]
    table = fitted.pivot(index="workers", columns="block", values=["updates_per_s", "update_s"])
    workers, by_block = table.index.to_numpy(), np.log(table["updates_per_s"].to_numpy(float))
    update_s = table["update_s"].iloc[-1]
    blocks = by_block.shape[1]

    def fit_blocks(sample: Sequence[int]) -> Demands:
        known = ~np.isnan(by_block[:, sample]).all(axis=1)
        logs = np.nanmedian(by_block[known][:, sample], axis=1)
        measured_s = float(update_s.iloc[list(sample)].median())
        return fit(workers[known], np.exp(logs), arrangement, measured_s)

    demands = fit_blocks(range(blocks))
    model = np.log(throughput(demands, arrangement, workers.max())[workers - 1])
    deviations = (by_block - model[:, np.newaxis])[~np.isnan(by_block)]
    random = np.random.default_rng(_SEED)
    samples = np.sort(random.integers(blocks, size=(_RESAMPLES, blocks)), axis=1).tolist()
    fits = {sample: fit_blocks(sample) for sample in set(map(tuple, samples))}
    refits = tuple(fits[tuple(sample)] for sample in samples)
    residuals = random.choice(deviations, (_RESAMPLES, blocks)).mean(axis=1)
    return CapacityModel(arrangement, demands, refits, residuals, blocks)
