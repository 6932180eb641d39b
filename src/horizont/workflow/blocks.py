"""A block of an experiment between two anchor runs, which show whether the machine drifts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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


def anchor_run(study: Study, anchor: Anchor, first: Run, position: int) -> Run:
    """Return the anchor run before (0) or after (1) the block of a run, or one to confirm (2)."""
    return Run(
        experiment=first.experiment,
        workload_name=anchor.workload,
        workload=study.workload(anchor.workload),
        system=parse_system(anchor.system),
        topology=Topology(),
        steps=anchor.steps,
        global_batch=anchor.batch,
        block=3 * first.block + position,
        seed=study.seed,
        sampler_hz=0,
        timeout_s=first.timeout_s,
    )


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
            return [self.execute(run, self.store) for run in runs]
        records = self._execute_between_anchors(runs)
        disturbed = [
            record
            for record in records
            if record.result.disturbed and not self._is_superseded(record)
        ]
        if disturbed:
            self.progress.extend(len(runs))
            self.progress.message(f"{len(disturbed)} disturbed runs are repeated")
            self._supersede(disturbed)
        return [self.execute(run, self.store) for run in runs] if disturbed else records

    def _execute_between_anchors(self, runs: Sequence[Run]) -> list[Record]:
        """Execute a block between two anchors, if there are any; once more if it drifted."""
        if self.anchor is None:
            return [self.execute(run, self.store) for run in runs]
        records, anchors = self._execute_once(runs, self.anchor)
        drift = _drift(anchors)
        may_repeat = not any(self._is_superseded(record) for record in records)
        if abs(drift) <= self.anchor.max_drift or not may_repeat:
            return records
        number = runs[0].block + 1
        self.progress.extend(len(runs))
        self.progress.message(f"block {number} drifted by {drift:+.1%} and is repeated")
        self._supersede(records)
        for anchor in anchors:  # those of other blocks remain
            shutil.rmtree(anchor.folder)
        return self._execute_once(runs, self.anchor)[0]

    def _execute_once(
        self, runs: Sequence[Run], anchor: Anchor
    ) -> tuple[list[Record], list[Record]]:
        """Return the records of a block, and those of its anchors.

        A machine that is slow for seconds only has not drifted: if the anchor after the block is
        too far from the one before, a third one has to confirm it.
        """
        anchors = [self._execute_anchor(anchor, runs[0], 0)]
        records = [self.execute(run, self.store) for run in runs]
        anchors.append(self._execute_anchor(anchor, runs[0], 1))
        if abs(_drift(anchors)) > anchor.max_drift:
            anchors.append(self._execute_anchor(anchor, runs[0], 2))
        return records, anchors

    def _execute_anchor(self, anchor: Anchor, first: Run, position: int) -> Record:
        run = anchor_run(self.study, anchor, first, position)
        self.progress.extend(1)
        return self.execute(run, self.store / ANCHORS_FOLDER)

    def _is_superseded(self, record: Record) -> bool:
        return (self.store / SUPERSEDED_FOLDER / record.folder.name).exists()

    def _supersede(self, records: Sequence[Record]) -> None:
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
    before_s, *after_s = map(_median_step_s, anchors)
    return min((step_s / before_s - 1 for step_s in after_s), key=abs)


def _median_step_s(record: Record) -> float:
    steps = record.steps().to_pandas()
    return float(np.median(steps.loc[steps["kind"] == "timed", "step_s"]))
