"""What was done, where and on what, as tables of facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from horizont.report import words
from horizont.report.tables import Table, facts, plain_table
from horizont.spec import Experiment, Link, Steps, Study, Topology, parse_system


def experiment_facts(study: Study, experiment: str) -> Table:
    """Tell how an experiment was set up.

    Parameters
    ----------
    experiment
        Its name, such as ``local``.
    """
    settings = study.experiment(experiment)
    steps, topology = settings.steps, settings.topology
    sharing = {"by_batch": "each global batch is dealt out", "by_shard": "each has its own part"}
    several = topology.workers > 1 or "workers" in settings.vary
    values: dict[str, object] = {
        "workers": topology.workers,
        "servers": f"{topology.servers}, for parameter servers" if topology.servers else None,
        **_host_facts(topology),
        "compute threads of each process": topology.threads,
        "examples of a global batch": _batch(settings),
        "data among workers": sharing[topology.sharding] if several else None,
        "weights averaged": (
            f"every {settings.exchange.average_every} steps"
            if settings.exchange.average_every > 1
            else None
        ),
        "gradients travel as": (
            settings.exchange.compression if settings.exchange.compression != "none" else None
        ),
        "steps of each worker": _listed_steps(steps),
        **{
            f"steps of each worker on {workload}": _listed_steps(other)
            for workload, other in settings.steps_on.items()
        },
        "batches of the pipeline alone, before": f"{steps.drained:,}" if steps.drained else None,
        "blocks": settings.blocks,
        "examples in the final test": f"{settings.evaluate_examples:,}",
        "resource samples": f"{settings.sampler_hz:g} a second",
        **{f"varied: {words.setting(name)}": _listed(name, v) for name, v in settings.vary.items()},
    }
    for setting, name in VARIED.items():
        if setting in settings.vary:
            values.pop(name, None)
    return facts({name: value for name, value in values.items() if value is not None})


#: Settings that are not told as fixed where they vary.
VARIED = {
    "workers": "workers",
    "servers": "servers",
    "link": "link of each host",
    "host_cpus": "processors of each host",
    "threads": "compute threads of each process",
}


def _listed_steps(steps: Steps) -> str:
    return f"{steps.warmup} warm-up, {steps.bare} bare, {steps.instrumented} instrumented"


def _batch(settings: Experiment) -> str | None:
    if "local_batch" in settings.vary or "global_batch" in settings.vary:
        return None
    if "workers" in settings.vary:
        return f"{settings.global_batch}"
    each = settings.global_batch // settings.topology.workers
    return f"{settings.global_batch}, {each} for each worker"


def _host_facts(topology: Topology) -> dict[str, object]:
    """Tell where the processes are."""
    if not topology.is_emulated:
        return {"hosts": ", ".join(topology.hosts)}
    together = "servers on the workers' hosts" if topology.placement == "together" else None
    apart = "servers on hosts of their own" if topology.placement == "apart" else None
    machines = f"{topology.machines}" if topology.machines else "one for each worker"
    placed = (together or apart) if topology.servers else None
    share = topology.host_cpus
    return {
        "emulated hosts": ", ".join(filter(None, [machines, placed])),
        "link of each host": words.link(topology.link),
        "processors of each host": "all" if share is None else f"{share:g}",
    }


def _listed(name: str, values: Iterable[Any]) -> str:
    """Write the values of a setting; a link is a mapping, and so is an input."""
    if name == "input":
        return "as in the table below"
    return ", ".join(
        words.link(Link.model_validate(value)) if isinstance(value, Mapping) else str(value)
        for value in values
    )


def system_facts(systems: Iterable[str]) -> Table:
    """Tell by which mechanism each system works and what can be measured of it."""
    rows = [_system_row(name) for name in systems]
    return replace(plain_table(pd.DataFrame(rows)), measured=False)


def _system_row(name: str) -> dict[str, str]:
    described = parse_system(name)
    traits = described.traits
    return {
        "system": words.system(name),
        "mechanism": described.means,
        "phases told apart": ", ".join(traits.measures),
        "note": traits.note,
    }


def study_facts(study: Study, sources: Mapping[str, str]) -> Table:
    """Tell what the study compares.

    Parameters
    ----------
    sources
        ``real`` or ``synthetic``, by the name of the data set.
    """
    rows = []
    for name in study.study:
        workload = study.workload(name)
        source = sources.get(workload.dataset, "unknown")
        for experiment in study.experiments_on(name):
            settings = study.experiment(experiment)
            runs = list(study.runs(experiment, name))
            rows.append(
                {
                    "workload": words.workload(workload.network, workload.dataset),
                    "data": "real" if source == "real" else "synthetic stand-in",
                    "experiment": experiment,
                    "workers": _span(run.topology.workers for run in runs),
                    "global batch": _span(run.global_batch for run in runs),
                    "systems": str(len(settings.systems)),
                    "runs of each": str(settings.blocks),
                }
            )
    numbers = {"workers", "global batch", "systems", "runs of each"}
    return plain_table(pd.DataFrame(rows), numbers)


def _span(values: Iterable[int]) -> str:
    """Write the least and the most of some numbers."""
    known = sorted(set(values))
    return f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,} to {known[-1]:,}"


def machine_facts(environment: Mapping[str, Any]) -> Table:
    """Tell on which machine and with which versions.

    Parameters
    ----------
    environment
        As of `horizont.measure.describe_environment`.
    """
    cpu = environment["cpu"]
    cores = f"{cpu['physical_cores'] or '?'} cores, {cpu['logical_cores']} threads"
    used = f"{len(cpu['affinity'])} usable" if cpu.get("affinity") else None
    virtual = {True: "yes", False: "no", None: None}[environment.get("virtualised")]
    values: dict[str, object] = {
        "processor": cpu["model"],
        "cores": ", ".join(filter(None, [cores, used])),
        "vector instructions": _newest(cpu.get("features", [])),
        "memory": f"{environment['memory_bytes'] / 2**30:.1f} GiB",
        "virtual machine": virtual,
        "system": f"{environment['system']} {environment.get('kernel', '')}".strip(),
        "Python": environment["python"],
    }
    versions = {
        name: version for name, version in environment["packages"].items() if version is not None
    }
    return facts(values | versions)


def _newest(features: list[str]) -> str | None:
    """Name the widest families of vector instructions only."""
    families = ("amx", "avx512", "avx2", "avx")
    found = [family for family in families if any(each.startswith(family) for each in features)]
    return ", ".join(found[:2]) or None


def dataset_facts(about: Any, info: Any) -> Table:
    """Tell what a data set is and where it came from.

    Parameters
    ----------
    about
        The description of the prepared set, `horizont.data.About`.
    info
        What the catalogue knows, `horizont.data.DatasetInfo`.
    """
    made = about.source != "real"
    unit = "words" if about.kind == "text" else "examples"
    values: dict[str, object] = {
        "source": f"synthetic stand-in for {info.title}" if made else f"the real {info.title}",
        "obtained from": about.origin,
        "shape of an example": " x ".join(map(str, about.shape)) or None,
        "classes" if about.kind == "image" else "vocabulary": f"{about.classes:,}",
        **{f"{unit}, {split}": f"{count:,}" for split, count in about.splits.items()},
        "mean by channel": _numbers(about.mean),
        "standard deviation": _numbers(about.std),
        "best reachable accuracy": _percent(about.best_accuracy),
        "best reachable perplexity": about.best_perplexity,
        "licence": None if made else info.licence,
        "citation": None if made else info.citation,
    }
    return facts({name: value for name, value in values.items() if value is not None})


def _numbers(values: Iterable[float]) -> str | None:
    return ", ".join(f"{value:.4f}" for value in values) or None


def _percent(value: float | None) -> str | None:
    return None if value is None else f"{value:.1%}"
