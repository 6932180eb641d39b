"""Whether other programs of the machine were busy while something was measured."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa
import pyarrow.compute as pc

from horizont.monitoring.host import busy_s
from horizont.monitoring.samples import with_rates

DISTURBED_FRACTION = 0.05
"""From this share of all processors on, the work of others marks a run as disturbed."""


@dataclass(frozen=True)
class BackgroundLoad:
    """What others took of the machine.

    Attributes
    ----------
    share
        Processor time of processes that are not ours, as a share of all processors; NaN if it
        could not be measured.
    stolen_share
        Processor time that a hypervisor gave to others, as a share of all processors.
    """

    cpu_fraction: float
    steal_fraction: float

    @property
    def disturbed(self) -> bool:
        """Whether that is enough to mark a run."""
        return self.cpu_fraction >= DISTURBED_FRACTION or self.steal_fraction >= DISTURBED_FRACTION


def measure_background(window_s: float = 0.5, own_pids: Iterable[int] = ()) -> BackgroundLoad:
    """Watch the machine for a moment, best just before a run, while none of ours work.

    Parameters
    ----------
    window_s
        How long, in seconds. The host's counters move in steps of 10 ms: a window of half a
        second on two processors resolves one hundredth.
    own
        Processes that do not count as others. The calling one never counts.
    """
    ours = [
        psutil.Process(pid) for pid in {*own_pids, psutil.Process().pid} if psutil.pid_exists(pid)
    ]
    before, own_before_s, start_s = psutil.cpu_times(), _total_cpu_s(ours), time.monotonic()
    time.sleep(window_s)
    after, own_after_s, end_s = psutil.cpu_times(), _total_cpu_s(ours), time.monotonic()
    capacity_s = (end_s - start_s) * (psutil.cpu_count() or 1)
    others_s = busy_s(after) - busy_s(before) - (own_after_s - own_before_s)
    return BackgroundLoad(
        max(0.0, others_s / capacity_s), max(0.0, (after.steal - before.steal) / capacity_s)
    )


def background_from_samples(samples: pa.Table, cores: int, margin_s: float = 1.5) -> BackgroundLoad:
    """Find in the samples of a run what others took while it went on.

    Host minus processes of the run, sampler included, sample by sample. A process costs before
    it is found and after it was last read, which would look like the work of others: the
    samples within `settle_s` before a first and one after a last reading are left out. What
    remains is averaged. Processes too short to be found count as others.

    Parameters
    ----------
    samples
        The samples of one host.
    cores
        Processors of the host.
    settle_s
        At least the time between two searches for processes, in seconds.
    """
    rated = with_rates(samples)
    host = rated.filter(pc.field("scope") == "host")
    ours = rated.filter(pc.field("scope").isin(["process", "sampler"]))
    host_sample = host["sample"].to_numpy()
    place = np.searchsorted(host_sample, ours["sample"].to_numpy())
    known = np.nan_to_num(ours["cpu_cores"].to_numpy())
    others = host["cpu_cores"].to_numpy() - np.bincount(place, known, len(host_sample))
    calm = _undisturbed_samples(ours, place, host["time_s"].to_numpy(), margin_s) & ~np.isnan(
        others
    )
    stolen = np.diff(host["steal_s"].to_numpy()).sum() / max(_duration_s(host), 1e-9) / cores
    share = max(0.0, float(np.mean(others[calm])) / cores) if calm.any() else float("nan")
    return BackgroundLoad(share, float(stolen))


def _undisturbed_samples(
    ours: pa.Table, place: npt.NDArray[np.int64], time_s: npt.NDArray[np.float64], margin_s: float
) -> npt.NDArray[np.bool_]:
    """Tell the samples around which no process of ours came or went."""
    calm = np.ones(len(time_s), dtype=bool)
    pids = ours["pid"].to_numpy()
    for pid in np.unique(pids):
        mine = place[pids == pid]
        first, last = mine[0], mine[-1]
        if first > 0:
            calm &= (time_s > time_s[first]) | (time_s < time_s[first] - margin_s)
        if last < len(time_s) - 1:
            calm[last + 1] = False
    return calm


def _duration_s(host: pa.Table) -> float:
    time_s = host["time_s"].to_numpy()
    return float(time_s[-1] - time_s[0]) if len(time_s) else 0.0


def _total_cpu_s(processes: Iterable[psutil.Process]) -> float:
    """Sum the processor seconds of some processes; one that has ended counts as nothing."""
    total_s = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total_s += times.user + times.system
    return total_s
