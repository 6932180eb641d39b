"""What the runs used of the machine: the four charts of each run, and a table of all."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from horizont import analysis
from horizont.records import Record
from horizont.report import figures, words
from horizont.report.picture import Picture
from horizont.report.tables import Table, table
from horizont.spec import Run

_TOTALS = ["system", "name", "cpu_mean", "memory_max"]


def resource_pictures(records: Sequence[Record]) -> list[Picture]:
    """Draw the four resource charts for one run of each system: the first that went well."""
    return [_picture(record, record.run.system.slug) for record in first_runs(records)]


def other_resource_pictures(records: Sequence[Record]) -> list[Picture]:
    """Draw the charts of all runs that `resource_pictures` leaves out, failed ones among them.

    A run without any samples is left out.
    """
    shown = {record.folder for record in first_runs(records)}
    others = [
        record
        for system in analysis.systems_of(records)
        for record in records
        if record.run.system.name == system and record.folder not in shown
    ]
    sampled = [record for record in others if len(analysis.resources(record))]
    return [
        _picture(record, f"{record.run.system.slug}-{number}")
        for number, record in enumerate(sampled)
    ]


def resource_table(records: Sequence[Record]) -> Table:
    """Sum up the resources of the runs of `resource_pictures`: a row a system and process."""
    totals = [
        analysis.resource_totals(record).assign(system=record.run.system.name)
        for record in first_runs(records)
    ]
    frame = pd.concat(totals) if totals else pd.DataFrame(columns=_TOTALS)
    return table(frame, _TOTALS)


def command_picture(samples: pd.DataFrame, command: str) -> Picture:
    """Draw the four charts of any command's process tree.

    Parameters
    ----------
    samples
        As `horizont.measure.read_samples` reads them.
    command
        The command, for the caption.
    """
    zero_s = float(samples["time_s"].min()) if len(samples) else 0.0
    resources = analysis.charts(analysis.by_process(samples), zero_s)
    nothing = pd.DataFrame(columns=["kind", "start_s", "end_s"])
    figure = figures.resource_charts(resources, nothing, whole="all together")
    data = _side_by_side(resources)
    caption = f"{command}: what its processes used; each of the busiest (left) and all (right)."
    return Picture(figure, "resources-command", caption, data)


def first_runs(records: Sequence[Record]) -> list[Record]:
    """Pick the first run of each system that went well, in the order of systems."""
    good: dict[str, Record] = {}
    for record in sorted(records, key=lambda record: record.run.block):
        if record.ok:
            good.setdefault(record.run.system.name, record)
    return [good[name] for name in analysis.systems_of(list(good.values()))]


def _picture(record: Record, name: str) -> Picture:
    run = record.run
    resources = analysis.resources(record)
    figure = figures.resource_charts(resources, analysis.segments(record))
    failed = "" if record.ok else f" The run failed: {record.result.reason}."
    caption = (
        f"{words.system(run.system.name)}: what its processes used in one run (block "
        f"{run.block + 1}{_setting(run)}), sampled {run.sampler_hz:g} times a second; each process "
        "(left) and all together (right). Colours: what the run was doing; the longest of its "
        f"workers counts.{failed}"
    )
    return Picture(figure, f"resources-{name}", caption, _side_by_side(resources))


def _side_by_side(resources: pd.DataFrame) -> pd.DataFrame:
    """Lay the charts out with a row a sample: as one long table they would be ten times as long."""
    wide = resources.pivot_table(index="time_s", columns=["quantity", "name"], values="value")
    wide.columns = pd.Index([" ".join(map(str, each)) for each in wide.columns.to_flat_index()])
    return wide.reset_index()


def _setting(run: Run) -> str:
    """Tell what the runs of a cluster differ in."""
    if not run.topology.is_emulated:
        return ""
    share = run.topology.host_cpus
    cpus = "" if share is None else f", {share:g} processors a host"
    return f"; {run.topology.workers} workers, link {words.link(run.topology.link)}{cpus}"
