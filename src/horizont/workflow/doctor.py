"""`horizont doctor`: whether this machine can measure now, and how small a difference."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from horizont.config.system import FRAMEWORKS, installed_version, unusable_reason
from horizont.config.topology import Topology
from horizont.errors import UserError
from horizont.launchers.base import unavailable_reason
from horizont.monitoring.background import DISTURBED_FRACTION, BackgroundLoad, BackgroundMeter
from horizont.monitoring.environment import describe_environment
from horizont.monitoring.noise import PROCESSES, measure_noise
from horizont.statistics.comparison import SPREAD_WARNING
from horizont.statistics.noise import Noise, noise_of, smallest_difference
from horizont.workflow.console import program
from horizont.workflow.measure import describe_holder, exclusive_measurement
from horizont.workflow.paths import Paths

#: Assumed duration of a run with its start; a block of two systems takes twice as long.
RUN_S = 10.0

#: Minutes of measuring for which the smallest difference is shown.
MINUTES = (1, 5, 20)

#: A longer examination reports its progress.
SILENT_S = 5.0

#: Duration of the examination without the computation, while another measurement runs.
LOAD_WINDOW_S = 1.0

LONGEST_S = 600.0
LEAST_DISK_BYTES = 2**30

#: Programs that are named, and the least use of a CPU that makes one worth it.
NAMED_PROGRAMS, NAMED_CORES = 3, 0.02

TURBO_FILES = {  # with the content that stands for on
    "/sys/devices/system/cpu/intel_pstate/no_turbo": "0",
    "/sys/devices/system/cpu/cpufreq/boost": "1",
}


@dataclass(frozen=True)
class MachineState:
    """What an examination of a machine has found.

    Attributes
    ----------
    load, cores_by_program
        Of other programs; see `horizont.monitoring.background.BackgroundMeter`.
    noise, repetition_s
        Of the computation, with the mean duration of a repetition; None and NaN if another
        measurement was running.
    holder
        Of the other measurement: its process, in brackets.
    unusable
        Why a framework cannot be used, by its name; empty if it can.
    """

    load: BackgroundLoad
    cores_by_program: Mapping[str, float]
    noise: Noise | None
    repetition_s: float
    unusable: Mapping[str, str]
    disk_free_bytes: int
    holder: str = ""

    @property
    def run_spread(self) -> float:
        """The expected spread of the rates of equal runs; NaN if the noise is unknown."""
        return self.noise.run_spread(RUN_S / self.repetition_s) if self.noise else math.nan

    def problems(self) -> list[str]:
        """List what speaks against measuring now, each in a phrase."""
        load = self.load
        busy = f"other programs use {load.cpu_fraction:.0%} of the CPUs ({self.named_programs()})"
        stolen = f"the hypervisor gives {load.steal_fraction:.0%} of the CPUs to other machines"
        noisy = f"equal runs would differ by {self.run_spread:.1%}, more than {SPREAD_WARNING:.0%}"
        found = {
            f"another measurement is running{self.holder}": self.noise is None,
            busy: load.cpu_fraction >= DISTURBED_FRACTION,
            stolen: load.steal_fraction >= DISTURBED_FRACTION,
            noisy: self.run_spread > SPREAD_WARNING,
            "no framework can be started": all(self.unusable.values()),
            "less than 1 GiB of the disk is free": self.disk_free_bytes < LEAST_DISK_BYTES,
        }
        return [problem for problem, applies in found.items() if applies]

    def named_programs(self) -> str:
        """Return the busiest programs with the CPUs that they use."""
        named = [
            f"{name} {cores:.2f} cores"
            for name, cores in list(self.cores_by_program.items())[:NAMED_PROGRAMS]
            if cores >= NAMED_CORES
        ]
        return ", ".join(named) or "none by name"


class _MeasurementRunning(Exception):
    """Another measurement holds the lock of the machine."""


def diagnose(paths: Paths, duration_s: float = 20.0) -> int:
    """Print whether this machine can measure now, the evidence, and the next command.

    Returns 0 if it can, 1 if it is disturbed or noisy, or lacks something. The noise is that of a
    computation of the given duration, all processes together.
    """
    if not 0 < duration_s <= LONGEST_S:
        raise UserError("--seconds", duration_s, f"a number above 0, up to {LONGEST_S:g}")
    machine = _machine_rows()  # creates hosts for a moment, which is no load by others
    state = _examine(paths.root, duration_s)
    print("\n".join(report(state, machine)))
    return 1 if state.problems() else 0


def _examine(folder: Path, duration_s: float) -> MachineState:
    unusable = {name: unusable_reason(name) for name in FRAMEWORKS}

    def refuse(message: str) -> None:
        raise _MeasurementRunning(message)

    def report_start(number: int) -> None:
        if duration_s > SILENT_S:
            remaining_s = duration_s * (PROCESSES - number) / PROCESSES
            text = f"process {number + 1} of {PROCESSES}, about {remaining_s:.0f} s remaining"
            print(f"noise: {text}", file=sys.stderr, flush=True)

    times_s: list[list[float]] = []
    holder = ""
    meter = BackgroundMeter()
    try:
        with exclusive_measurement(refuse):
            times_s = measure_noise(duration_s, report_start)
    except _MeasurementRunning:
        holder = describe_holder()
        time.sleep(LOAD_WINDOW_S)
    return MachineState(
        meter.load(),
        meter.cores_by_name(),
        noise_of(times_s) if times_s else None,
        float(np.mean(np.concatenate(times_s))) if times_s else math.nan,
        unusable,
        shutil.disk_usage(folder).free,
        holder,
    )


def report(state: MachineState, machine: Mapping[str, str]) -> list[str]:
    """Format the verdict, the evidence, and the next command as lines.

    `machine` has facts that do not affect the verdict, by their names.
    """
    problems = state.problems()
    verdict = "This machine can measure now."
    if problems:
        verdict = f"This machine should not measure now: {problems[0]}."
    usable = [name for name, reason in state.unusable.items() if not reason]
    reasons = "; ".join(filter(None, state.unusable.values()))
    rows = {
        **machine,
        "other load": f"{state.load.cpu_fraction:.1%} of the CPUs: {state.named_programs()}",
        "steal time": f"{state.load.steal_fraction:.1%} of the CPUs",
        "disk": f"{state.disk_free_bytes / 2**30:.1f} GiB free",
        "frameworks": ", ".join(f"{name} {installed_version(name)}" for name in usable),
        **({"not usable": reasons} if reasons else {}),
        **_noise_rows(state),
    }
    lines = [verdict, *(f"Also: {problem}." for problem in problems[1:]), ""]
    lines += [f"{name:<20}{text}" for name, text in rows.items()]
    return [*lines, "", f"Next: {_next_command(state)}"]


def _noise_rows(state: MachineState) -> dict[str, str]:
    """Format the noise, and the differences of two systems that exceed it."""
    if state.noise is None:
        return {"noise": "not measured"}
    differences = []
    for minutes in MINUTES:
        blocks = int(60 * minutes / (2 * RUN_S))
        difference = smallest_difference(state.run_spread, blocks)
        differences.append(f"{difference:.1%} in {minutes} min ({blocks} blocks)")
    return {
        "noise": f"{state.noise.between:.2%} between processes, {state.noise.within:.2%} within one"
        f" ({PROCESSES} processes, repetitions of {state.repetition_s * 1e3:.0f} ms)",
        "smallest difference": ", ".join(differences),
        "": f"of two systems in runs of {RUN_S:g} s with this noise; training may have more",
    }


def _next_command(state: MachineState) -> str:
    if all(state.unusable.values()):
        return "make env"
    problems = state.problems()
    if not problems:
        return f"{program()} repro"
    if state.noise is None:
        return f"wait for its end, then {program()} doctor again"
    if state.load.cpu_fraction >= DISTURBED_FRACTION:
        return f"end these programs or wait, then {program()} doctor again"
    return f"{program()} doctor --seconds 60, to see whether it persists"


def _machine_rows() -> dict[str, str]:
    """Describe processor and clock, and test what runs use of the system."""
    environment = describe_environment()
    cpu = environment["cpu"]
    virtual = ", virtual machine" if environment["virtualised"] else ""
    quota = "no CPU quota" if cpu["quota_cores"] is None else f"quota {cpu['quota_cores']:g} cores"
    emulated = {
        "emulated hosts": Topology(launcher="emulated"),
        "CPU quotas": Topology(launcher="emulated", cpus_per_host=1.0),
    }
    return {
        "processor": f"{cpu['model'] or 'not readable'}, {cpu['logical_cores']} logical cores "
        f"({cpu['physical_cores'] or 'unknown'} physical){virtual}",
        "frequency": f"governor {cpu['governor'] or 'not readable'}, turbo {_turbo()}",
        "usable cores": f"{len(cpu['affinity'])} of {cpu['logical_cores']}, {quota}",
        "pinning": _pinning(),
        **{name: unavailable_reason(topology) or "work" for name, topology in emulated.items()},
    }


def _turbo() -> str:
    for file, content in TURBO_FILES.items():
        try:
            return "on" if Path(file).read_text(encoding="ascii").strip() == content else "off"
        except OSError:
            continue
    return "not readable"


def _pinning() -> str:
    """Test whether a process can be pinned to a core, with this one for a moment."""
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        works = os.sched_getaffinity(0) == {min(allowed)}
    except OSError as error:
        return f"not possible: {error.strerror}"
    finally:
        os.sched_setaffinity(0, allowed)
    return "works" if works else "has no effect"
