"""Background load: CPU time that other programs used while something was measured."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pyarrow as pa

from horizont.monitoring.counters import cpu_busy_s
from horizont.monitoring.samples import with_rates

if TYPE_CHECKING:
    import pandas as pd

#: Background load from which a run is marked as disturbed, as a fraction of all CPUs.
DISTURBED_FRACTION = 0.05


@dataclass(frozen=True)
class BackgroundLoad:
    """CPU time that was not available to a run.

    Attributes
    ----------
    cpu_fraction
        CPU time of unrelated processes as a fraction of all CPUs; NaN if it could not be measured.
    steal_fraction
        CPU time that the hypervisor gave to other machines, as a fraction of all CPUs.
    """

    cpu_fraction: float
    steal_fraction: float

    @property
    def disturbed(self) -> bool:
        """Whether that is enough to mark a run."""
        return self.cpu_fraction >= DISTURBED_FRACTION or self.steal_fraction >= DISTURBED_FRACTION


def measure_background(window_s: float = 0.5) -> BackgroundLoad:
    """Measure the background load for a moment, best just before a run.

    The calling process does not count. The host's counters advance in steps of 10 ms: half a second
    on two CPUs resolves one hundredth.
    """
    before, own_before_s, start_s = psutil.cpu_times(), time.process_time(), time.monotonic()
    time.sleep(window_s)
    after, own_after_s, end_s = psutil.cpu_times(), time.process_time(), time.monotonic()
    capacity_s = (end_s - start_s) * (psutil.cpu_count() or 1)
    others_s = cpu_busy_s(after) - cpu_busy_s(before) - (own_after_s - own_before_s)
    return BackgroundLoad(
        max(0.0, others_s / capacity_s), max(0.0, (after.steal - before.steal) / capacity_s)
    )


def background_from_samples(samples: pa.Table, cores: int, margin_s: float = 1.5) -> BackgroundLoad:
    """Estimate the background load from the samples of a run.

    CPU time of the host minus that of the run's processes and the sampler, for each sample. A
    process uses CPU time before it is found and after it was last sampled, which would look like
    background: samples within `margin_s` before its first sample and the one after its last are
    left out. The rest is averaged. Processes too short-lived to be found count as background.

    Parameters
    ----------
    samples
        Samples of one host.
    cores
        CPUs of the host.
    margin_s
        At least the interval between process scans, in seconds.
    """
    rated = with_rates(samples)
    host = rated[rated["scope"] == "host"].set_index("sample")
    run = rated[rated["scope"].isin(["process", "sampler"])]
    run_cores = run.groupby("sample")["cpu_cores"].sum().reindex(host.index, fill_value=0.0)
    other_cores = host["cpu_cores"] - run_cores
    other_cores = other_cores[_steady_samples(run, host["time_s"], margin_s)]
    span_s, steal_s = (np.ptp(host[name]) if len(host) > 1 else 0 for name in ("time_s", "steal_s"))
    return BackgroundLoad(
        cpu_fraction=float(np.clip(other_cores.mean() / cores, 0.0, None)),
        steal_fraction=float(steal_s / span_s / cores) if span_s else 0.0,
    )


def _steady_samples(run: pd.DataFrame, time_s: pd.Series, margin_s: float) -> pd.Series:
    """Return which samples of the host have no start or end of a process of the run near them."""
    steady = time_s.notna()
    for _, own in run.groupby("pid")["sample"]:
        first, last = own.min(), own.max()
        if first > time_s.index[0]:
            steady &= ~time_s.between(time_s[first] - margin_s, time_s[first])
        steady[time_s.index[time_s.index > last][:1]] = False
    return steady
