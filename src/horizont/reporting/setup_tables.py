"""Tables of settings: how an experiment was set up, the machine, the data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pandas as pd

from horizont.config.experiment import Experiment
from horizont.config.study import Study
from horizont.config.system import parse_system
from horizont.config.topology import DEFAULT_LAUNCHER, Link
from horizont.data.catalogue import DatasetInfo
from horizont.data.prepared import DatasetDescription
from horizont.records.record import Record
from horizont.reporting import labels
from horizont.reporting.output import Stack, TableOutput, key_value_table
from horizont.reporting.registry import table
from horizont.reporting.tables import text_table

_SHARDING = {
    "global_batches": "each global batch is split among the workers",
    "static_shards": "each worker has its own part of the data set",
}

#: Where the servers run.
_PLACEMENTS = {"colocated": "on the workers' hosts", "dedicated": "on dedicated hosts"}


@table("setup", title="Setup")
def setup_table(settings: Experiment, records: Sequence[Record] = ()) -> TableOutput:
    """Build the table of an experiment's settings on a workload, and the GPUs that it ran on."""
    steps, sweep, topology = settings.steps, settings.sweep, settings.topology
    exchange, examples = settings.gradient_exchange, settings.evaluation.examples
    has_servers = "servers" not in sweep and any(
        "server" in system.info.roles and settings.server_layout(system) is None
        for system in map(parse_system, settings.systems)
    )
    has_workers = topology.workers > 1 or "workers" in sweep
    is_local = topology.launcher == DEFAULT_LAUNCHER
    values: dict[str, object] = {
        "workers": "workers" not in sweep and topology.workers,
        "servers": has_servers and f"{topology.servers}, for parameter servers",
        "addresses": is_local and ", ".join(topology.addresses),
        "GPU of each worker": _gpus(records),
        "compute threads per process": "threads" not in sweep and topology.threads,
        "global batch": _format_batch(settings),
        "distribution of the examples": has_workers and _SHARDING[topology.sharding],
        "weights averaged": exchange.local_steps > 1 and f"every {exchange.local_steps} steps",
        "gradient compression": exchange.compression != "none" and exchange.compression,
        "steps of each worker": ", ".join(
            f"{count} {labels.SEGMENTS.get(kind, kind)}"
            for kind, count in steps.segments()
            if count
        ),
        "batches of the input pipeline alone": steps.input_batches and f"{steps.input_batches:,}",
        "blocks": f"{settings.blocks}, each with a seed of its own"
        if settings.seed_per_block
        else settings.blocks,
        "test examples": examples and f"{examples:,}",
        "resource samples": f"{settings.sampler_hz:g} per second",
    }
    for name, swept in sweep.items():
        values[f"sweep: {labels.SETTINGS.get(name, name)}"] = _format_values(name, swept)
    return key_value_table({name: value for name, value in values.items() if value})


def _gpus(records: Sequence[Record]) -> str:
    """Return the models of the GPUs, with the version of CUDA; empty for runs on CPUs."""
    devices = [
        record.environment["devices"] for record in records if "devices" in record.environment
    ]
    found = (f"{name}, CUDA {device['cuda']}" for device in devices for name in device["names"])
    return "; ".join(dict.fromkeys(found))


def _format_batch(settings: Experiment) -> str | None:
    if settings.global_batch is None:
        return f"{settings.local_batch} examples per worker" if settings.local_batch else None
    if "global_batch" in settings.sweep or "local_batch" in settings.sweep:
        return None
    if "workers" in settings.sweep or settings.topology.workers == 1:
        return f"{settings.global_batch} examples"
    local_batch = settings.global_batch // settings.topology.workers
    return f"{settings.global_batch} examples, {local_batch} per worker"


def _format_values(name: str, values: Iterable[Any]) -> str:
    if name == "input":
        return "as in the table below"
    return ", ".join(_format_value(name, value) for value in values)


#: What applies where a swept setting has no value.
_UNSET = {"initial_limit": "that of the network", "cpus_per_host": "all"}


def _format_value(name: str, value: Any) -> str:
    if value is None:
        return _UNSET.get(name, "none")
    if isinstance(value, Mapping):
        return labels.link_label(Link.model_validate(value))
    return str(value)


_EMULATED_HOSTS = (
    "Each emulated host is a network namespace of this machine, with an address, a name, and "
    "one link to a switch. The kernel limits the rate of each end of a link. Once all workers have "
    "made a step, the CPU time of each host is limited, so that hosts do not take CPU time from "
    "each other. Times and bytes are therefore those of a small cluster, with one difference: "
    "communication within a host is as fast as on this machine. The systems of a single process "
    "are the baseline: one process on one such host with one worker's share of the batch, under "
    "the same limits."
)

_AGENTS = (
    "On each host an agent starts the processes and sends back what they have written. The hosts' "
    "clocks are measured at both ends of a run, and all times are converted to that of the "
    "launcher. Hosts on one machine share its CPUs: such times say nothing of a cluster."
)


#: Whether the job had its hosts to itself -> a sentence.
_EXCLUSIVE = {
    True: " They were allocated to this job alone.",
    False: " The allocation was not exclusive: jobs of others could run on them, too.",
}


def _hosts_text(records: Sequence[Record]) -> str:
    if not any(record.has("aligned_clocks") for record in records):
        return _EMULATED_HOSTS
    facts = {record.environment.get("exclusive_hosts") for record in records}
    # A single run that shared its hosts is worth a warning.
    return _AGENTS + next((_EXCLUSIVE[fact] for fact in (False, True) if fact in facts), "")


@table(
    "hosts",
    title="The hosts",
    text=_hosts_text,
    needs=lambda records: any(r.run.topology.launcher != DEFAULT_LAUNCHER for r in records),
)
def host_table(settings: Experiment) -> TableOutput:
    """Build the table of the hosts of an experiment."""
    topology, sweep = settings.topology, settings.sweep
    hosts = [str(topology.hosts or "one per worker")]
    if topology.servers:
        hosts += [f"servers {_PLACEMENTS[topology.placement]}"]
    for pattern, layout in settings.server_layouts.items():
        count = "one for each worker" if layout.servers == "each" else layout.servers
        hosts += [f"servers of {pattern}: {count}, {_PLACEMENTS[layout.placement]}"]
    quota = topology.cpus_per_host
    pinned = ", on the same CPUs all the time" if topology.pin_hosts else ""
    values = {"launcher": topology.launcher, "hosts": ", ".join(hosts)}
    if "link" not in sweep:
        values["link of each host"] = labels.link_label(topology.link)
    if "cpus_per_host" not in sweep:
        values["CPUs per host"] = "all" if quota is None else f"{quota:g}{pinned}"
    return key_value_table(values)


@table("systems", title="The systems")
def system_table(settings: Experiment) -> TableOutput:
    """Build the table of the mechanisms of an experiment's systems."""
    rows = [
        {
            "system": labels.system_label(system.name),
            "mechanism": system.mechanism,
            "measured phases": ", ".join(system.info.phases),
            "note": system.info.caveat,
        }
        for system in map(parse_system, settings.systems)
    ]
    return text_table(rows, measured=False)


@table("study", title="What was run")
def study_table(study: Study, sources: Mapping[str, str]) -> TableOutput:
    """Build the table of all experiments; `sources` is by data set."""
    rows = []
    for name in study.equivalence.workloads:
        workload = study.workload(name)
        source = sources.get(workload.dataset, "unknown")
        for experiment in study.experiments_on(name):
            settings = study.experiment(experiment).on(name)
            runs = list(study.runs(experiment, name))
            rows.append(
                {
                    "workload": labels.workload_label(workload.network, workload.dataset),
                    "data": {"real": "real", "own": "own"}.get(source, "synthetic stand-in"),
                    "experiment": study.experiment_title(experiment),
                    "workers": _format_range([run.topology.workers for run in runs]),
                    "global batch": _format_range([run.global_batch for run in runs]),
                    "systems": str(len(settings.systems)),
                    "runs of each": str(settings.blocks),
                }
            )
    return text_table(rows, {"workers", "global batch", "systems", "runs of each"})


def _format_range(values: Sequence[int]) -> str:
    return " to ".join(f"{value:,}" for value in sorted({min(values), max(values)}))


@table("machine", title="The machines")
def machine_table(environments: Mapping[str, Mapping[str, Any]]) -> TableOutput | Stack:
    """Build the table of the machines and of the versions that `describe_environment` found.

    The environments are by the runs that were executed in them, which another table lists if there
    are several: a list of runs is too long for a column beside others.
    """
    facts = [_machine_facts(one) for one in environments.values()]
    if len(facts) == 1:
        return key_value_table(facts[0])
    runs = [
        {"machine": f"machine {number}", "runs": names}
        for number, names in enumerate(environments, start=1)
    ]
    names = list(dict.fromkeys(chain.from_iterable(facts)))
    columns = {
        f"machine {number}": [str(values.get(name) or "–") for name in names]
        for number, values in enumerate(facts, start=1)
    }
    cells, text = pd.DataFrame({"": names, **columns}), frozenset({"", *columns})
    facts_table = TableOutput(cells, text, title="The machines")
    return Stack((replace(text_table(runs), title="The runs of each machine"), facts_table))


def _machine_facts(environment: Mapping[str, Any]) -> dict[str, object]:
    cpu = environment["cpu"]
    cores = [f"{cpu['physical_cores'] or '?'} cores", f"{cpu['logical_cores']} threads"]
    cores += [f"{len(cpu['affinity'])} usable"] if cpu.get("affinity") else []
    features = " ".join(["", *cpu.get("features", [])])
    extensions = [name for name in ("amx", "avx512", "avx2", "avx") if f" {name}" in features]
    values: dict[str, object] = {
        "processor": cpu["model"],
        "processor revision": cpu.get("revision"),
        "cores": ", ".join(cores),
        "vector instructions": ", ".join(extensions[:2]) or None,  # the widest two
        "memory": f"{environment['memory_bytes'] / 2**30:.1f} GiB",
        "virtual machine": {True: "yes", False: "no", None: None}[environment.get("virtualised")],
        "system": f"{environment['system']} {environment.get('kernel', '')}".strip(),
        "Python": environment["python"],
    }
    versions = {name: version for name, version in environment["packages"].items() if version}
    return values | versions


_SOURCES = {"real": "the real", "synthetic": "synthetic stand-in for", "own": "own data,"}


@table("dataset", title="The data set")
def dataset_table(dataset: DatasetDescription, info: DatasetInfo) -> TableOutput:
    """Build the table of a data set, its origin and its licence."""
    is_synthetic, is_text = dataset.source == "synthetic", dataset.kind == "text"
    unit = "words" if is_text else "examples"
    best = dataset.best_accuracy
    values: dict[str, object] = {
        "source": f"{_SOURCES[dataset.source]} {info.title}",
        "obtained from": dataset.origin,
        "shape of an example": " x ".join(map(str, dataset.shape)) or None,
        "vocabulary" if is_text else "classes": f"{dataset.classes:,}",
        **{f"{unit}, {split}": f"{count:,}" for split, count in dataset.splits.items()},
        "mean by channel": ", ".join(f"{value:.4f}" for value in dataset.mean) or None,
        "standard deviation": ", ".join(f"{value:.4f}" for value in dataset.std) or None,
        "test examples that are training examples, too": dataset.duplicates,
        "best possible accuracy": None if best is None else f"{best:.1%}",
        "best possible perplexity": dataset.best_perplexity,
        "licence": None if is_synthetic else info.licence or None,
        "citation": None if is_synthetic else info.citation or None,
    }
    return key_value_table({name: value for name, value in values.items() if value is not None})
