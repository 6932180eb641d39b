"""A run to which something happens: watched on as long as anything in it goes on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from horizont.cluster.collect import made_steps
from horizont.cluster.group import ProcessGroup
from horizont.cluster.hosts import Hosts
from horizont.cluster.plan import JOB_FILE, PROGRESS_FILE, Plan, PlannedProcess
from horizont.cluster.signs import Signs, steps_done
from horizont.cluster.strike import strike
from horizont.cluster.watch import RunFailed, how_it_ended, wait_for_any
from horizont.records import Aftermath, Fate, RecordWriter, read_events
from horizont.records.aftermath import End, Over
from horizont.spec import ProcessJob, Run

#: Seconds between two looks: to meet the step at which it happens, and afterwards.
BEFORE_S, AFTER_S = 0.02, 0.2
#: When nobody trains any more, the passive processes are given so long to notice.
SETTLE_S = 3.0

Start = Callable[[PlannedProcess], ProcessGroup]


@dataclass
class Member:
    """A process of the run, and what became of it so far.

    Attributes
    ----------
    end
        None while it runs.
    """

    group: ProcessGroup
    life: int = 1
    end: End | None = None
    end_s: float | None = None
    error_s: float | None = None
    words: str = ""
    status: int = 0
    steps_before: int | None = None

    @property
    def name(self) -> str:
        """The name of the process."""
        return self.group.name

    @property
    def job(self) -> ProcessJob:
        """What it was told."""
        assert isinstance(self.group.planned.job, ProcessJob)
        return self.group.planned.job

    @property
    def leads(self) -> bool:
        """Whether it trains or leads, so that the run is not over without it."""
        return not self.group.planned.passive

    def steps(self) -> int | None:
        """Tell the steps that it has made; None if it counts none."""
        return steps_done(self.group.planned.folder)


class Ordeal:
    """The processes of a run, the incident, and what came of it."""

    def __init__(
        self,
        plan: Plan,
        groups: list[ProcessGroup],
        start: Start,
        record: RecordWriter,
        hosts: Hosts,
    ) -> None:
        assert plan.run.incident is not None
        self.run, self.incident = plan.run, plan.run.incident
        self.record = record
        self.start = start
        self.hosts = hosts
        self.members = [Member(group) for group in groups]
        seat = self.incident.seat(self.run.system)
        self.victim = next(m for m in self.members if (m.job.role, m.job.rank) == seat)
        self.signs = Signs(groups)
        self.struck_s: float | None = None
        self.at_step = 0
        self._pieces: Iterator[float] = iter(())
        self._due_s = math.inf

    def watch(self, tick: Callable[[], None]) -> Aftermath:
        """Watch until everything is over, and tell what came of the incident.

        Raises
        ------
        RunFailed
            If the run fails, or is over, before anything could happen to it.
        """
        deadline_s = time.monotonic() + self.run.deadline_s
        while True:
            now_s = time.monotonic()
            pause_s = BEFORE_S if self.struck_s is None else AFTER_S
            self._collect(max(0.0, min(pause_s, self._due_s - now_s)))
            tick()
            self._carry_on()
            over = self._over(time.monotonic() > deadline_s)
            if over is not None:
                return self._told(over)

    def _collect(self, pause_s: float) -> None:
        """Wait a little, and note who has ended."""
        running = {m.group.pidfd: m for m in self.members if m.end is None}
        for group in wait_for_any([m.group for m in running.values()], pause_s):
            self._note_end(running[group.pidfd])

    def _note_end(self, member: Member) -> None:
        now_s = time.monotonic()
        member.status = member.group.reap()
        struck = member is self.victim and self.incident.kind in ("killed", "restarted")
        if member.status == 0:
            member.end = "finished"
        else:
            member.end = "struck" if struck and self.struck_s is not None else "failed"
        if self.struck_s is None:
            if member.end == "failed":
                raise RunFailed(f"before the incident {how_it_ended(member.group)}")
            return
        member.end_s = now_s - self.struck_s
        self.record.event(
            "process_ended", process=member.name, status=member.status, after_s=member.end_s
        )

    def _note_errors(self, struck_s: float) -> None:
        """Note in whom an error was raised: some need long to end of it, and some hang then."""
        for member in self.members:
            if member.error_s is None and member.end not in ("struck", "finished"):
                for line in read_events(member.group.planned.folder / "events.jsonl"):
                    if line["event"] == "error":
                        member.error_s = line["time_s"] - struck_s
                        member.words = line["words"]

    def _carry_on(self) -> None:
        """Let the incident happen when it is time, and take its next piece when that is due."""
        if self.struck_s is None:
            steps = self._moment()
            if steps is None or steps < self.incident.at_step:
                return
            self._strike()
        elif time.monotonic() < self._due_s:
            return
        if self.incident.kind == "slowed" and self.victim.end is not None:
            self._due_s = math.inf
            return
        pause_s = next(self._pieces, None)
        if pause_s is None and self._due_s < math.inf:
            self.record.event("incident_ended", process=self.victim.name)
        self._due_s = math.inf if pause_s is None else time.monotonic() + pause_s

    def _moment(self) -> int | None:
        """Tell the steps that the moment goes by: the victim's own, or the slowest worker's."""
        own = self.victim.steps()
        if own is not None:
            return own
        if self.victim.leads:
            return None
        counted = [m.steps() for m in self.members if m.leads]
        known = [steps for steps in counted if steps is not None]
        return min(known) if len(known) == len(counted) else None

    def _strike(self) -> None:
        self.at_step = self._moment() or 0
        for member in self.members:
            member.steps_before = member.steps()
        self.struck_s = time.monotonic()
        self.record.event("incident", process=self.victim.name, what=self.incident.name)
        self._pieces = strike(self.incident, self.victim.group, self._start_again, self.hosts)

    def _start_again(self) -> None:
        member = Member(self.start(again(self.victim.group.planned)), life=2)
        self.members.append(member)
        self.signs.groups.append(member.group)

    def _over(self, too_late: bool) -> Over | None:
        """Tell why there is nothing to wait for any more; None if there is."""
        if self.struck_s is not None:
            self._note_errors(self.struck_s)
        leading = [m for m in self.members if m.leads and m.end is None and m.error_s is None]
        if self.struck_s is None:
            if too_late:
                raise RunFailed(f"deadline of {self.run.deadline_s:g} s passed before the incident")
            if not leading:
                raise RunFailed("the run was over before the incident could happen")
            return None
        quiet_s = min(self.signs.quiet_s(), self._since_last_end_s())
        if not leading and self._done():
            return "finished"
        if too_late:
            return "deadline"
        if self._due_s < math.inf:  # there is more to come of the incident
            return None
        if not leading and (quiet_s > SETTLE_S or all(m.end for m in self.members)):
            return "ended"
        return "stalled" if quiet_s > (self.run.patience_s or math.inf) else None

    def _since_last_end_s(self) -> float:
        assert self.struck_s is not None
        ends = [m.end_s for m in self.members if m.end_s is not None]
        return time.monotonic() - self.struck_s - max(ends, default=0.0)

    def _done(self) -> bool:
        """Whether each of those that train or lead has done its work, in one life or another."""
        seats = {(m.job.role, m.job.rank) for m in self.members if m.leads}
        return seats <= {(m.job.role, m.job.rank) for m in self.members if m.end == "finished"}

    def _told(self, over: Over) -> Aftermath:
        assert self.struck_s is not None
        over_s = time.monotonic() - self.struck_s
        self.record.event("watched_to_the_end", over=over, after_s=over_s)
        fates = tuple(self._fate(member) for member in self.members)
        return Aftermath(
            process=self.victim.name,
            at_step=self.at_step,
            over=over,
            over_s=over_s,
            fates=fates,
            taken_in=self._taken_in(over),
        )

    def _taken_in(self, over: Over) -> bool | None:
        """Tell whether the second life had a part in the training."""
        second = next((m for m in self.members if m.life == 2), None)
        if second is None or self.struck_s is None:
            return None
        if second.job.role != "worker":
            return over == "finished"
        if second.leads:
            return bool(second.steps())
        leaders = [m.group.planned.folder for m in self.members if m.leads]
        back_s = self.struck_s + (self.incident.for_s or 0.0)
        # One that is led may just have come too late to be handed any.
        return made_steps(leaders, second.job.rank, back_s) or None

    def _fate(self, member: Member) -> Fate:
        steps = member.steps()
        before = member.steps_before if member.life == 1 else 0
        known = steps is not None and before is not None
        return Fate(
            process=member.name,
            role=member.job.role,
            rank=member.job.rank,
            life=member.life,
            end=member.end or ("running" if member.error_s is None else "failed"),
            end_s=member.end_s,
            error_s=member.error_s,
            words=member.words or (member.group.last_words() if member.end == "failed" else ""),
            steps_before=before if known else None,
            steps_after=steps - before if known else None,  # type: ignore[operator]
        )


def check_aftermath(run: Run, found: Aftermath) -> None:
    """Raise :class:`RunFailed`, with the reason, if the training did not get to its end."""
    if found.over == "finished":
        return
    assert run.incident is not None
    happened = run.incident.kind.replace("_", " ")
    running = ", ".join(fate.process for fate in found.fates if fate.end == "running")
    came = {
        "ended": "nobody was left to train",
        "stalled": f"no progress for {run.patience_s or 0:g} s with {running} still running",
        "deadline": f"deadline of {run.deadline_s:g} s passed with {running} still running",
    }[found.over]
    noticed = found.noticed
    if noticed is not None:
        came = f"{noticed.process} failed {noticed.noticed_s:.1f} s later: {noticed.words}"
    raise RunFailed(f"{found.process} was {happened} at step {found.at_step}; {came}")


def second_lives(folders: Sequence[Path]) -> list[Path]:
    """List the folders of the processes that were started again."""
    names = [again_folder(folder) for folder in folders]
    return [folder for folder in names if folder.exists()]


def again_folder(folder: Path) -> Path:
    """Name the folder of the second life of a process."""
    return folder.with_name(f"{folder.name}-again")


def again(planned: PlannedProcess) -> PlannedProcess:
    """Plan the second life of a process: the same seat and endpoints, a folder of its own."""
    assert isinstance(planned.job, ProcessJob)
    folder = again_folder(planned.folder)
    job = planned.job.model_copy(update={"folder": folder, "progress": folder / PROGRESS_FILE})
    argv = (*planned.argv[:-1], str(folder / JOB_FILE))
    return replace(planned, name=folder.name, argv=argv, folder=folder, job=job)
