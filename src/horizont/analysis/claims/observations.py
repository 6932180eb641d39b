"""What claims are tested with: runs, or predictions of a model, each in a setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import inf, nan
from typing import Literal, NamedTuple

from horizont.analysis.claims.publications import read_sources
from horizont.analysis.claims.quantities import measure
from horizont.analysis.claims.rules import Side
from horizont.analysis.runs import NO_CERTIFICATE_GIVEN, CertificateStatus, comparability
from horizont.analysis.scaling import is_oversubscribed
from horizont.config.input import InputPipeline
from horizont.config.run import Run
from horizont.config.topology import DEFAULT_LAUNCHER, Link
from horizont.records.record import Record
from horizont.wording import DISTURBED, counted

EvidenceLevel = Literal["A", "B", "C", "D"]

#: How close the runs behind a verdict are to the published ones, the closest first.
EVIDENCE_LEVELS: dict[EvidenceLevel, str] = {
    "A": "workers, batch and network as published, fewer steps",
    "B": "as A, on emulated hosts with a share of a core each, in slow motion",
    "C": "by a model, calibrated and validated on runs of this machine",
    "D": "an analogue: another batch, other numbers of workers or hosts, or one host for several",
}

#: With fewer CPUs for each of its threads, a host runs in slow motion.
FULL_SPEED_CPUS = 1.0


class Setting(NamedTuple):
    """The conditions that two runs must share to be compared within a block.

    Attributes
    ----------
    hosts
        As in the settings, 0 for a host per worker.
    initial_limit
        Of uniform initial weights; None for those of the network.
    """

    experiment: str
    workload: str
    workers: int
    batch: int
    link: Link
    cpus_per_host: float | None
    pin_hosts: bool
    threads: int
    device: str
    hosts: int
    sharding: str
    learning_rate: float
    initial_limit: float | None

    def description(self) -> str:
        """Return the conditions as a phrase."""
        workers = counted(self.workers, "worker")
        parts = [f"{self.experiment}, {workers} with {self.batch} examples each"]
        rates = (self.link.rate_mbit, self.link.uplink_mbit)
        parts += [f"{'/'.join(f'{rate:g}' for rate in rates if rate)} Mbit/s"] if any(rates) else []
        parts += [f"{self.link.latency_ms:g} ms"] if self.link.latency_ms else []
        parts += [f"{self.cpus_per_host:g} CPUs per host"] if self.cpus_per_host else []
        if self.initial_limit is not None:
            parts.append(f"initial weights up to {self.initial_limit:g}")
        return ", ".join(parts)


class Arrangement(NamedTuple):
    """What may differ between two systems that are compared: servers and input pipeline."""

    servers: int
    placement: str
    input: InputPipeline

    def description(self, system: str) -> str:
        """Return the arrangement as a phrase; empty without servers and files."""
        servers = "1 server" if self.servers == 1 else f"{self.servers} servers"
        parts = [f"{servers}, {self.placement}"] if self.servers else []
        framework = system.partition("/")[0]
        parts += [self.input.label(framework)] if self.input.from_files else []
        return f"{system} with {', '.join(parts)}" if parts else ""

    def rank(self, side: Side, workers: int) -> tuple[int, int, bool] | None:
        """Return the position in the order of preference of a rule; None if it does not match.

        A rule that names no servers prefers few, and one that names no placement colocated ones.
        """
        if self.input != side.pipeline:
            return None
        is_dedicated = self.placement == "dedicated"
        if not self.servers:
            return 0, 0, is_dedicated
        counts = [workers if count == "each" else count for count in side.servers]
        if counts and self.servers not in counts:
            return None
        if side.placement not in (None, self.placement):
            return None
        return counts.index(self.servers) if counts else 0, self.servers, is_dedicated


@dataclass(frozen=True)
class Observation:
    """The quantities of one system in one setting and block.

    Attributes
    ----------
    read
        Returns a quantity, NaN where it is unknown.
    records
        Names of the records with its runs.
    not_timed, not_learned
        Why its times, or what it learned, cannot be compared; empty if they can.
    seed
        Of initial weights and batches.
    machine
        The type of the machine; empty if it was not recorded.
    record
        None for the prediction of a model.
    """

    system: str
    setting: Setting
    arrangement: Arrangement
    block: int
    read: Callable[[str], float]
    records: tuple[str, ...]
    not_timed: str = ""
    not_learned: str = ""
    seed: int = 0
    machine: str = ""
    record: Record | None = None


def observe(record: Record, certificates: Mapping[str, CertificateStatus]) -> Observation:
    """Open a run as an observation; its quantities are read once."""
    run = record.run
    pipeline = Side(system=run.system.name, input=run.input).pipeline  # with the name of its reader
    certificate = certificates.get(run.workload_name, NO_CERTIFICATE_GIVEN)
    not_learned = _why_unusable(record, comparability(record, certificate, of_times=False))
    not_timed = _why_unusable(record, comparability(record, certificate))
    if not not_timed and is_oversubscribed(record):
        not_timed = "the processes compete for the CPUs of the machine in all runs of"
    return Observation(
        run.system.name,
        _setting(run),
        Arrangement(run.topology.servers, run.topology.placement, pipeline),
        run.block,
        cache(lambda quantity: measure(record, quantity)),
        (record.folder.name,),
        not_timed,
        not_learned,
        run.seed,
        record.machine,
        record,
    )


def predict(
    run: Observation, setting: Setting, arrangement: Arrangement, values: Mapping[str, float]
) -> Observation:
    """Build the prediction of a model, fitted to the block of a run, for another setting.

    The values are by quantity; the records remain those of the run.
    """
    return replace(
        run,
        setting=setting,
        arrangement=arrangement,
        read=lambda quantity: values.get(quantity, nan),
        record=None,
    )


def _setting(run: Run) -> Setting:
    topology = run.topology
    return Setting(
        run.experiment,
        run.workload_name,
        topology.workers,
        run.local_batch,
        topology.link,
        topology.cpus_per_host,
        topology.pin_hosts,
        topology.threads,
        topology.device,
        topology.hosts,
        topology.sharding,
        run.workload.optimizer.learning_rate,
        run.workload.initial_limit,
    )


def _why_unusable(record: Record, status: str) -> str:
    if not record.ok and record.run.fault is None:
        return "no successful run of"
    if record.run.fault is not None:
        return "no runs without a fault of"
    if status != "verified":
        return f"{status}:"
    return f"all runs were {DISTURBED}:" if record.result.disturbed else ""


def evidence_level(observation: Observation, publication: str, *, of_times: bool) -> EvidenceLevel:
    """Return how close an observation is to the runs of a publication.

    Times depend on the hosts; what is learned does not, but on the number of workers and the batch.
    """
    if observation.record is None:
        return "C"
    setting, topology = observation.setting, observation.record.run.topology
    source = read_sources().get(publication)
    published = source.setups.get(setting.workload) if source else None
    if published is not None and not published.includes(setting.workers, setting.batch):
        return "D"
    if not of_times:
        return "A"
    if published is not None and len(topology.all_hosts) > (published.hosts or inf):
        return "D"
    if topology.workers > 1 and topology.launcher == DEFAULT_LAUNCHER:
        return "D"
    return "B" if speed_share(setting) < 1 else "A"


def speed_share(setting: Setting) -> float:
    """Return the CPUs of a host for each thread, relative to `FULL_SPEED_CPUS`."""
    return (setting.cpus_per_host or inf) / (FULL_SPEED_CPUS * setting.threads)
