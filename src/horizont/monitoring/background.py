"""Background load: CPU time that other programs used while something was measured."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa
import pyarrow.compute as pc

from horizont.monitoring.counters import cpu_busy_s
from horizont.monitoring.samples import with_rates

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


def measure_background(window_s: float = 0.5, own_pids: Iterable[int] = ()) -> BackgroundLoad:
    """Measure the background load for a moment, best just before a run.

    Parameters
    ----------
    window_s
        Duration in seconds. The host's counters advance in steps of 10 ms: half a second on two
        CPUs resolves one hundredth.
    own_pids
        Processes that do not count as background. The calling one never counts.
    """
    ours = [
        psutil.Process(pid) for pid in {*own_pids, psutil.Process().pid} if psutil.pid_exists(pid)
    ]
    before, own_before_s, start_s = psutil.cpu_times(), _cpu_s(ours), time.monotonic()
    time.sleep(window_s)
    after, own_after_s, end_s = psutil.cpu_times(), _cpu_s(ours), time.monotonic()
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
    host = rated.filter(pc.field("scope") == "host")
    run = rated.filter(pc.field("scope").isin(["process", "sampler"]))
    sample, time_s = host["sample"].to_numpy(), host["time_s"].to_numpy()
    row = np.searchsorted(sample, run["sample"].to_numpy())
    run_cores = np.bincount(row, np.nan_to_num(run["cpu_cores"].to_numpy()), len(sample))
    other_cores = host["cpu_cores"].to_numpy() - run_cores
    steady = _steady_samples(run["pid"].to_numpy(), row, time_s, margin_s) & ~np.isnan(other_cores)
    cpu_fraction = max(0.0, np.mean(other_cores[steady]) / cores) if steady.any() else np.nan
    steal_s = np.diff(host["steal_s"].to_numpy()).sum()
    duration_s = max(np.diff(time_s).sum(), 1e-9)  # 0 if there are no two samples
    return BackgroundLoad(float(cpu_fraction), float(steal_s / duration_s / cores))


def _steady_samples(
    pids: npt.NDArray[np.int64],
    row: npt.NDArray[np.int64],
    time_s: npt.NDArray[np.float64],
    margin_s: float,
) -> npt.NDArray[np.bool_]:
    """Return which samples of the host have no start or end of a process of the run near them.

    Parameters
    ----------
    pids, row
        Process ID and index of the host's sample, for each sample of a process of the run.
    time_s
        Times of the host's samples.
    """
    steady = np.ones(len(time_s), dtype=bool)
    for pid in np.unique(pids):
        first, last = row[pids == pid][[0, -1]]
        if first > 0:
            steady &= (time_s > time_s[first]) | (time_s < time_s[first] - margin_s)
        if last < len(time_s) - 1:
            steady[last + 1] = False
    return steady


def _cpu_s(processes: Iterable[psutil.Process]) -> float:
    """Sum the CPU time of processes in seconds; one that has ended counts as nothing."""
    total_s = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total_s += times.user + times.system
    return total_s
