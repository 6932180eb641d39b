"""What was done, where and on what, as tables of facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from horizont.config.run import StepCounts
from horizont.config.study import Experiment, Study
from horizont.config.system import parse_system
from horizont.config.topology import DEFAULT_LAUNCHER, Link, Topology
from horizont.reporting import labels
from horizont.reporting.tables import Table, key_value_table, text_table


def experiment_facts(study: Study, experiment: str) -> Table:
    """Tell how an experiment was set up.

    Parameters
    ----------
    experiment
        Its name, such as ``local``.
    """
    settings = study.experiment(experiment)
    steps, topology = settings.steps, settings.topology
    sharing = {
        "global_batches": "each global batch is dealt out",
        "static_shards": "each has its own part",
    }
    several = topology.workers > 1 or "workers" in settings.sweep
    values: dict[str, object] = {
        "workers": topology.workers,
        "servers": f"{topology.servers}, for parameter servers" if topology.servers else None,
        **_host_settings(topology),
        "compute threads of each process": topology.threads,
        "examples of a global batch": _format_batch(settings),
        "data among workers": sharing[topology.sharding] if several else None,
        "weights averaged": (
            f"every {settings.gradient_exchange.local_steps} steps"
            if settings.gradient_exchange.local_steps > 1
            else None
        ),
        "gradients travel as": (
            settings.gradient_exchange.compression
            if settings.gradient_exchange.compression != "none"
            else None
        ),
        "steps of each worker": _format_steps(steps),
        **{
            f"steps of each worker on {workload}": _format_steps(other)
            for workload, other in settings.steps_on.items()
        },
        "batches of the pipeline alone, before": f"{steps.input_batches:,}"
        if steps.input_batches
        else None,
        "blocks": settings.blocks,
        "examples in the final test": f"{settings.evaluation.examples:,}",
        "resource samples": f"{settings.sampler_hz:g} a second",
        **{
            f"varied: {labels.setting_label(name)}": _format_values(name, v)
            for name, v in settings.sweep.items()
        },
    }
    for setting, name in SWEPT_SETTINGS.items():
        if setting in settings.sweep:
            values.pop(name, None)
    return key_value_table({name: value for name, value in values.items() if value is not None})


#: Settings that are not told as fixed where they vary.
SWEPT_SETTINGS = {
    "workers": "workers",
    "servers": "servers",
    "link": "link of each host",
    "cpus_per_host": "processors of each host",
    "threads": "compute threads of each process",
}


def _format_steps(steps: StepCounts) -> str:
    return f"{steps.warmup} warm-up, {steps.timed} bare, {steps.instrumented} instrumented"


def _format_batch(settings: Experiment) -> str | None:
    if "local_batch" in settings.sweep or "global_batch" in settings.sweep:
        return None
    if "workers" in settings.sweep:
        return f"{settings.global_batch}"
    each = settings.global_batch // settings.topology.workers
    return f"{settings.global_batch}, {each} for each worker"


def _host_settings(topology: Topology) -> dict[str, object]:
    """Tell where the processes are."""
    if topology.launcher == DEFAULT_LAUNCHER:
        return {"addresses": ", ".join(topology.addresses)}
    together = "servers on the workers' hosts" if topology.placement == "colocated" else None
    apart = "servers on hosts of their own" if topology.placement == "dedicated" else None
    machines = f"{topology.hosts}" if topology.hosts else "one for each worker"
    placed = (together or apart) if topology.servers else None
    share = topology.cpus_per_host
    return {
        f"{topology.launcher} hosts": ", ".join(filter(None, [machines, placed])),
        "link of each host": labels.link_label(topology.link),
        "processors of each host": "all" if share is None else f"{share:g}",
    }


def _format_values(name: str, values: Iterable[Any]) -> str:
    """Write the values of a setting; a link is a mapping, and so is an input."""
    if name == "input":
        return "as in the table below"
    return ", ".join(
        labels.link_label(Link.model_validate(value)) if isinstance(value, Mapping) else str(value)
        for value in values
    )


def system_facts(systems: Iterable[str]) -> Table:
    """Tell by which mechanism each system works and what can be measured of it."""
    rows = [_system_row(name) for name in systems]
    return replace(text_table(pd.DataFrame(rows)), measured=False)


def _system_row(name: str) -> dict[str, str]:
    described = parse_system(name)
    traits = described.info
    return {
        "system": labels.system_label(name),
        "mechanism": described.mechanism,
        "phases told apart": ", ".join(traits.phases),
        "note": traits.caveat,
    }


def study_facts(study: Study, sources: Mapping[str, str]) -> Table:
    """Tell what the study compares.

    Parameters
    ----------
    sources
        ``real`` or ``synthetic``, by the name of the data set.
    """
    rows = []
    for name in study.equivalence.workloads:
        workload = study.workload(name)
        source = sources.get(workload.dataset, "unknown")
        for experiment in study.experiments_on(name):
            settings = study.experiment(experiment)
            runs = list(study.runs(experiment, name))
            rows.append(
                {
                    "workload": labels.workload_label(workload.network, workload.dataset),
                    "data": "real" if source == "real" else "synthetic stand-in",
                    "experiment": experiment,
                    "workers": _format_range(run.topology.workers for run in runs),
                    "global batch": _format_range(run.global_batch for run in runs),
                    "systems": str(len(settings.systems)),
                    "runs of each": str(settings.blocks),
                }
            )
    numbers = {"workers", "global batch", "systems", "runs of each"}
    return text_table(pd.DataFrame(rows), numbers)


def _format_range(values: Iterable[int]) -> str:
    """Write the least and the most of some numbers."""
    known = sorted(set(values))
    return f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,} to {known[-1]:,}"


def machine_facts(environment: Mapping[str, Any]) -> Table:
    """Tell on which machine and with which versions.

    Parameters
    ----------
    environment
        As of `horizont.monitoring.describe_environment`.
    """
    cpu = environment["cpu"]
    cores = f"{cpu['physical_cores'] or '?'} cores, {cpu['logical_cores']} threads"
    used = f"{len(cpu['affinity'])} usable" if cpu.get("affinity") else None
    virtual = {True: "yes", False: "no", None: None}[environment.get("virtualised")]
    values: dict[str, object] = {
        "processor": cpu["model"],
        "cores": ", ".join(filter(None, [cores, used])),
        "vector instructions": _widest_vector_extensions(cpu.get("features", [])),
        "memory": f"{environment['memory_bytes'] / 2**30:.1f} GiB",
        "virtual machine": virtual,
        "system": f"{environment['system']} {environment.get('kernel', '')}".strip(),
        "Python": environment["python"],
    }
    versions = {
        name: version for name, version in environment["packages"].items() if version is not None
    }
    return key_value_table(values | versions)


def _widest_vector_extensions(features: list[str]) -> str | None:
    """Name the widest families of vector instructions only."""
    families = ("amx", "avx512", "avx2", "avx")
    found = [family for family in families if any(each.startswith(family) for each in features)]
    return ", ".join(found[:2]) or None


def dataset_facts(dataset: Any, info: Any) -> Table:
    """Tell what a data set is and where it came from.

    Parameters
    ----------
    about
        The description of the prepared set, `horizont.data.About`.
    info
        What the catalogue knows, `horizont.data.DatasetInfo`.
    """
    made = dataset.source != "real"
    unit = "words" if dataset.kind == "text" else "examples"
    values: dict[str, object] = {
        "source": f"synthetic stand-in for {info.title}" if made else f"the real {info.title}",
        "obtained from": dataset.origin,
        "shape of an example": " x ".join(map(str, dataset.shape)) or None,
        "classes" if dataset.kind == "image" else "vocabulary": f"{dataset.classes:,}",
        **{f"{unit}, {split}": f"{count:,}" for split, count in dataset.splits.items()},
        "mean by channel": _format_numbers(dataset.mean),
        "standard deviation": _format_numbers(dataset.std),
        "best reachable accuracy": _format_percent(dataset.best_accuracy),
        "best reachable perplexity": dataset.best_perplexity,
        "licence": None if made else info.licence,
        "citation": None if made else info.citation,
    }
    return key_value_table({name: value for name, value in values.items() if value is not None})


def _format_numbers(values: Iterable[float]) -> str | None:
    return ", ".join(f"{value:.4f}" for value in values) or None


def _format_percent(value: float | None) -> str | None:
    return None if value is None else f"{value:.1%}"
