"""Chaos cases, drawn from a seed: a short run, the fault, its target, and the moment."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from horizont.config.run import Run
from horizont.config.system import parse_system
from horizont.config.topology import Capability
from horizont.config.workload import Workload
from horizont.launchers.base import get_launcher
from horizont.launchers.plan import role_assignment
from horizont.workflow.chaos.clocks import HOST_VARIABLE, find_compiler
from horizont.workflow.chaos.faults import FAULTS, ChaosFault, TargetKind
from horizont.workflow.chaos.nodes import may_drain

#: Events of a process after which a fault can be due.
STAGES = ("spawned", "interpreter", "framework", "data", "network", "first_step")
#: Relative frequency of each: the early ones are the fastest.
WEIGHTS = (3, 3, 2, 1, 1, 4)

#: Longest time between the event and the fault, in seconds. What a process on an agent's host has
#: logged arrives here at the end of the run, so there the time counts from its start.
DELAY_S, DELAY_ON_AGENTS_S = 0.5, 8.0

#: Steps of a run that a fault has to end, and of one that has to complete.
LONG_RUN, SHORT_RUN = 20_000, 200

STALL_TIMEOUT_S, TIMEOUT_S = 10.0, 60.0

#: Agents on this machine, under the names of hosts that do not exist.
AGENT_OPTIONS = {"command": f"env {HOST_VARIABLE}={{host}}", "hosts": ["node0", "node1"]}


@dataclass(frozen=True)
class Case:
    """What happens to which process of which run.

    Attributes
    ----------
    fault
        A name in `FAULTS`.
    target
        Name of a planned process, ``sampler``, ``agent-0`` or ``launcher``.
    stage, delay_s
        The fault is due so many seconds after this event of the target.
    launcher_fault
        A fault of the launcher right after that of the target; empty for none.
    """

    launcher: str
    system: str
    fault: str
    target: str
    stage: str
    delay_s: float
    launcher_fault: str = ""

    @property
    def what(self) -> ChaosFault:
        """The fault."""
        return FAULTS[self.fault]

    @property
    def target_kind(self) -> TargetKind:
        """What the target is."""
        kind = self.target.partition("-")[0]
        return kind if kind in ("sampler", "agent", "launcher") else "process"  # type: ignore[return-value]

    @property
    def faults_of_launcher(self) -> list[str]:
        """The faults that the launcher gets."""
        first = self.fault if self.target == "launcher" else ""
        return [name for name in (first, self.launcher_fault) if name]

    def __str__(self) -> str:
        happened = f"{self.target} {self.what.past_participle}"
        text = f"{self.launcher} {self.system}: {happened} {self.delay_s:.2f} s after {self.stage}"
        if self.launcher_fault:
            text += f", then launcher {FAULTS[self.launcher_fault].past_participle}"
        return text

    @property
    def timed_steps(self) -> int:
        """The length of the run."""
        if not self.what.is_fatal or self.target == "sampler":
            return SHORT_RUN
        # Asynchronous workers complete without one that is paused or disconnected.
        is_silent = self.fault in ("pause", "disconnect")
        return SHORT_RUN if is_silent and "/async/" in self.system else LONG_RUN

    def run(self, workload_name: str, workload: Workload) -> Run:
        """Return the run of the case on a workload."""
        return chaos_run(self.launcher, self.system, workload_name, workload, self.timed_steps)


def chaos_run(
    launcher: str, system: str, workload_name: str, workload: Workload, timed: int
) -> Run:
    """Return a run of small batches on two workers, or on one if the system has one process."""
    parsed = parse_system(system)
    topology: dict[str, Any] = {
        "launcher": launcher,
        "workers": 1 if parsed.sync == "local" else 2,
        "servers": 1 if "server" in parsed.info.roles else 0,
        "options": AGENT_OPTIONS if launcher == "command" else {},
    }
    return Run.model_validate(
        {
            "experiment": "chaos",
            "workload_name": workload_name,
            "workload": workload,
            "system": parsed,
            "topology": topology,
            "steps": {"warmup": 1, "timed": timed, "instrumented": 0},
            "global_batch": 16,
            "block": 0,
            "seed": 7,
            "sampler_hz": 2,
            "record_updates": "order" if parsed.info.records_updates else "none",
            "stall_timeout_s": STALL_TIMEOUT_S,
            "timeout_s": TIMEOUT_S,
        }
    )


def draw_case(
    seed: int, number: int, launchers: Sequence[str], systems: Sequence[str], workload: Workload
) -> Case:
    """Draw a case; the same for the same arguments, whichever others are drawn.

    Without a C compiler no clock is set, and without the rights no node is set to drain.
    """
    dice = random.Random(f"{seed} {number}")
    launcher, system = dice.choice(launchers), dice.choice(systems)
    fault = dice.choice([name for name in FAULTS if _is_possible(FAULTS[name], launcher, system)])
    on_agents = has_agents(launcher)
    kinds = [kind for kind in FAULTS[fault].targets if kind != "agent" or on_agents]
    run = chaos_run(launcher, system, "chaos", workload, SHORT_RUN)
    targets = {
        "process": [f"{role}-{rank}" for role, rank, _ in role_assignment(run)],
        "agent": [f"agent-{number}" for number in range(run.topology.workers)],
    }
    kind = dice.choice(kinds)
    target = dice.choice(targets.get(kind, [kind]))
    stage, delay_s = draw_moment(dice, launcher)
    of_launcher = [name for name, one in FAULTS.items() if "launcher" in one.targets]
    follows = kind != "launcher" and FAULTS[fault].is_fatal and dice.random() < 0.25
    launcher_fault = dice.choice(of_launcher) if follows else ""
    return Case(launcher, system, fault, target, stage, delay_s, launcher_fault)


def _is_possible(fault: ChaosFault, launcher: str, system: str) -> bool:
    if fault.needs_hosts:
        return _can(launcher, "disconnect") and parse_system(system).sync != "local"
    if fault.drains_node:
        return launcher == "slurm" and may_drain()
    return not fault.sets_clock or find_compiler() is not None


def draw_moment(dice: random.Random, launcher: str) -> tuple[str, float]:
    """Draw an event of the target, and the seconds after it."""
    if has_agents(launcher):
        return "started", round(dice.uniform(0, DELAY_ON_AGENTS_S), 3)
    return dice.choices(STAGES, WEIGHTS)[0], round(dice.uniform(0, DELAY_S), 3)


def has_agents(launcher: str) -> bool:
    """Whether the hosts of a launcher have agents."""
    return _can(launcher, "aligned_clocks")


def _can(launcher: str, capability: Capability) -> bool:
    return capability in get_launcher(launcher).capabilities
