"""A block of an experiment between two anchor runs, which show whether the machine drifts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from horizont.config.run import Run
from horizont.config.study import Anchor, Study
from horizont.config.system import parse_system
from horizont.config.topology import Topology
from horizont.records.record import Record
from horizont.workflow.progress import Progress

#: Folders beside the records of an experiment on a workload.
ANCHORS_FOLDER = "anchors"
SUPERSEDED_FOLDER = "superseded"

#: Opens the record of a run in a folder, or executes the run.
Execute = Callable[[Run, Path], Record]


@dataclass(frozen=True)
class RepeatedBlocks:
    """Executes blocks; one that drifts, and runs that are disturbed, are repeated once.

    Attributes
    ----------
    anchor
        None if no drift matters.
    store
        The records of an experiment on a workload. Those of the anchors lie in a folder of it, and
        so do those that were superseded by a repetition.
    """

    study: Study
    anchor: Anchor | None
    store: Path
    execute: Execute
    is_complete: Callable[[Run], bool]
    progress: Progress

    def execute_block(self, runs: Sequence[Run]) -> list[Record]:
        """Execute the runs of a block that have no record yet, and open all records."""
        if all(map(self.is_complete, runs)):
            return self._execute_runs(runs)
        if self.anchor is None:
            records = self._execute_runs(runs)
        else:
            records = self._execute_between_anchors(runs, self.anchor)
        disturbed = [record for record in records if record.result.disturbed]
        disturbed = [record for record in disturbed if not self._is_superseded(record)]
        if not disturbed:
            return records
        self._supersede(disturbed, runs, f"{len(disturbed)} disturbed runs are repeated")
        return self._execute_runs(runs)

    def _execute_runs(self, runs: Sequence[Run]) -> list[Record]:
        return [self.execute(run, self.store) for run in runs]

    def _execute_between_anchors(self, runs: Sequence[Run], anchor: Anchor) -> list[Record]:
        """Execute a block between two anchors; once more if it drifted."""
        records, anchors = self._execute_once(runs, anchor)
        drift = _drift(anchors)
        if abs(drift) <= anchor.max_drift or any(map(self._is_superseded, records)):
            return records
        reason = f"block {runs[0].block + 1} drifted by {drift:+.1%} and is repeated"
        self._supersede(records, runs, reason)
        for record in anchors:  # those of other blocks remain
            shutil.rmtree(record.folder)
        return self._execute_once(runs, anchor)[0]

    def _execute_once(
        self, runs: Sequence[Run], anchor: Anchor
    ) -> tuple[list[Record], list[Record]]:
        """Return the records of a block, and those of its anchors.

        A machine that is slow for seconds only has not drifted: if the anchor after the block is
        too far from the one before, a third one has to confirm it.
        """
        anchors = [self._execute_anchor(anchor, runs[0], 0)]
        records = self._execute_runs(runs)
        anchors.append(self._execute_anchor(anchor, runs[0], 1))
        if abs(_drift(anchors)) > anchor.max_drift:
            anchors.append(self._execute_anchor(anchor, runs[0], 2))
        return records, anchors

    def _execute_anchor(self, anchor: Anchor, first: Run, position: int) -> Record:
        """Execute the anchor run before (0) or after (1) the block of a run, or to confirm (2)."""
        self.progress.extend(1)
        run = Run(
            experiment=first.experiment,
            workload_name=anchor.workload,
            workload=self.study.workload(anchor.workload),
            system=parse_system(anchor.system),
            topology=Topology(),
            steps=anchor.steps,
            global_batch=anchor.batch,
            block=3 * first.block + position,
            seed=self.study.seed,
            sampler_hz=0,
            timeout_s=first.timeout_s,
        )
        return self.execute(run, self.store / ANCHORS_FOLDER)

    def _is_superseded(self, record: Record) -> bool:
        return (self.store / SUPERSEDED_FOLDER / record.folder.name).exists()

    def _supersede(self, records: Sequence[Record], runs: Sequence[Run], reason: str) -> None:
        """Move records away, since the runs of their block are executed again."""
        self.progress.extend(len(runs))
        self.progress.message(reason)
        folder = self.store / SUPERSEDED_FOLDER
        folder.mkdir(exist_ok=True)
        for record in records:
            if record.result.status != "skipped":
                record.folder.rename(folder / record.folder.name)


def _drift(anchors: Sequence[Record]) -> float:
    """Return by which fraction the anchors after a block were slower than the one before.

    Of several, the smallest drift; 0 if an anchor failed.
    """
    if not all(anchor.ok for anchor in anchors):
        return 0.0
    tables = [anchor.steps().to_pandas() for anchor in anchors]
    before_s, *after_s = (t.loc[t["kind"] == "timed", "step_s"].median() for t in tables)
    return float(min((step_s / before_s - 1 for step_s in after_s), key=abs))
