"""`horizont chaos`: cases drawn from a seed, one after the other, with a line for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from horizont.config.study import Study
from horizont.config.system import SYSTEMS
from horizont.errors import UserError
from horizont.workflow.chaos.cases import SHORT_RUN, Case, chaos_run, draw_case
from horizont.workflow.chaos.execution import Bench, open_bench, run_case, run_without_fault
from horizont.workflow.check import load_study, skip_reason
from horizont.workflow.measure import exclusive_measurement
from horizont.workflow.paths import Paths
from horizont.workflow.prepare import ensure_prepared

#: The launchers whose hosts are on this machine, where everything that is left can be seen.
CHAOS_LAUNCHERS = ("local", "emulated", "command", "emulated_agents")

#: Only if it is asked for: its nodes may be other machines, and are set to drain.
FURTHER_LAUNCHERS = ("slurm",)


@dataclass(frozen=True)
class Choice:
    """What cases are drawn from."""

    launchers: tuple[str, ...]
    systems: tuple[str, ...]


def run_chaos(
    paths: Paths, seed: int, numbers: Sequence[int], launchers: Sequence[str] = ()
) -> bool:
    """Run the cases of a seed with some numbers; return whether all ended as they should.

    Their workload is the first of the study. A launcher that is unavailable here is refused if it
    was asked for, and otherwise left out.
    """
    study = load_study(paths)
    name, workload = next(iter(study.workloads.items()))
    choice = _choose(study, name, launchers)
    ensure_prepared(study, workload.dataset, paths)
    failed: list[int] = []
    problems: list[str] = []
    with (
        exclusive_measurement(print),
        open_bench(paths.prepared(workload.dataset), name, workload) as bench,
    ):
        for number in numbers:
            case = draw_case(seed, number, choice.launchers, choice.systems, workload)
            if _report(number, case, bench):
                failed.append(number)
        for launcher in choice.launchers:
            if reason := run_without_fault(launcher, choice.systems[-1], bench):
                problems.append(f"DEFECT: the run after the cases, {launcher}: {reason}")
    print(*problems, _summary(seed, numbers, failed, launchers), sep="\n")
    return not failed and not problems


def _choose(study: Study, name: str, launchers: Sequence[str]) -> Choice:
    """Return the launchers and the systems that are available here."""
    for launcher in launchers:
        if launcher not in CHAOS_LAUNCHERS + FURTHER_LAUNCHERS:
            raise UserError("--launcher", launcher, CHAOS_LAUNCHERS + FURTHER_LAUNCHERS)

    def reason(launcher: str, system: str) -> str:
        return skip_reason(chaos_run(launcher, system, name, study.workloads[name], SHORT_RUN))

    systems = tuple(system for system in SYSTEMS if not reason("local", system))
    if not systems:
        raise UserError("frameworks", "none is installed", "at least one; run `make env`")
    missing = {one: reason(one, systems[0]) for one in launchers or CHAOS_LAUNCHERS}
    for launcher, why in missing.items():
        if launchers and why:
            raise UserError("--launcher", launcher, f"local ({why})")
    return Choice(tuple(one for one, why in missing.items() if not why), systems)


def _report(number: int, case: Case, bench: Bench) -> bool:
    """Run a case and print its result; return whether anything was wrong."""
    print(f"case {number}: {case}", flush=True)
    outcome = run_case(case, bench)
    print(
        f"  {outcome.result}",
        *(f"  DEFECT: {one}" for one in outcome.defects),
        sep="\n",
        flush=True,
    )
    return bool(outcome.defects)


def _summary(
    seed: int, numbers: Sequence[int], failed: Sequence[int], launchers: Sequence[str]
) -> str:
    """Return the last lines: what was checked, and how to replay what failed."""
    if not failed:
        return (
            f"{len(numbers)} cases of seed {seed}: each run ended, with a whole record or none, "
            "and left no process and no file;\n"
            "no recorded update was lost, repeated or applied out of order"
        )
    options = "".join(f" --launcher {one}" for one in launchers)
    commands = [f"  horizont chaos --seed {seed} --case {number}{options}" for number in failed]
    return "\n".join([f"{len(failed)} of {len(numbers)} cases failed; to replay them:", *commands])
