"""Display names of everything that settings and records name. Unknown names stay as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf

from horizont.config.run import Run
from horizont.config.system import FRAMEWORKS, framework_info
from horizont.config.topology import Link
from horizont.records.record import Record
from horizont.wording import counted

NETWORKS = {
    "alexnet": "AlexNet",
    "alexnet-small": "AlexNet (small)",
    "inception": "Inception",
    "lenet": "LeNet (20/50/500)",
    "lenet5": "LeNet-5",
    "lstm": "LSTM",
    "resnet18": "ResNet-18",
    "resnet18-small-stem": "ResNet-18 (small stem)",
    "resnet50": "ResNet-50",
    "resnet50-small-stem": "ResNet-50 (small stem)",
}
DATASETS = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "fashion-mnist": "Fashion-MNIST",
    "ptb": "Penn Treebank",
}
CLASS_NAMES = {
    "cifar10": (
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    ),
    "fashion-mnist": (
        *("T-shirt", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
}
ARCHITECTURES = {
    "allreduce": "all-reduce",
    "mpi": "all-reduce by MPI",
    "parameter_server": "parameter server",
}
SYNC = {"sync": "synchronous", "async": "asynchronous"}
STARTUP_PHASES = {
    "interpreter": "Python",
    "input_batches": "input alone",
    "first_step": "first step",
}
SEGMENTS = {"warmup": "warm-up"}
SETTINGS = {
    "global_batch": "examples in a global batch",
    "local_batch": "examples per worker and step",
    "link": "link of each host",
    "cpus_per_host": "CPUs per host",
    "threads": "compute threads per process",
    "placement": "placement of the servers",
    "hosts": "hosts of the workers",
    "input": "input pipeline",
    "learning_rate": "learning rate",
    "initial_limit": "limit of the initial weights",
}

#: Where the steps of two systems differ, as it follows a time: `5.3 ms (47%) are ...`.
CAUSES = {
    "local": "in the worker's own computation",
    "load": "in loading batches",
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "waiting": "in waiting for the other workers",
    "communication": "in communication",
    "update": "in the update",
    "other": "outside the phases",
}


def framework_of(system: str) -> str:
    """Return the framework of a system, as in the settings."""
    return system.split("/", maxsplit=1)[0]


def framework_label(name: str) -> str:
    """Return the display name of a framework."""
    return framework_info(name).label if name in FRAMEWORKS else name


def _variant_label(framework: str, variant: str) -> str:
    known = framework_info(framework).variants if framework in FRAMEWORKS else {}
    return (known[variant].label if variant in known else "") or variant


def synchronisation_label(system: str) -> str:
    """Return what distinguishes a system within its framework: `synchronous, all-reduce`."""
    base, _, variant = system.partition("+")
    framework, sync, *architecture = base.split("/")
    parts = ["one process"]
    if architecture:
        parts = [SYNC.get(sync, sync), ARCHITECTURES.get(architecture[0], architecture[0])]
    return ", ".join([*parts, _variant_label(framework, variant)] if variant else parts)


def system_label(name: str) -> str:
    """Return a system on one line: `<framework>, synchronous, all-reduce`."""
    return f"{framework_label(framework_of(name))}, {synchronisation_label(name)}"


def system_label_in_text(system: str) -> str:
    """Return a system within a sentence: `<framework> (synchronous, all-reduce)`."""
    return f"{framework_label(framework_of(system))} ({synchronisation_label(system)})"


def two_line_label(system: str) -> str:
    """Return a system on two lines, for the row of a chart."""
    return f"{framework_label(framework_of(system))}\n{synchronisation_label(system)}"


def short_labels(systems: list[str]) -> dict[str, str]:
    """Return labels for a sentence: the framework alone where it has no other system."""
    counts = Counter(map(framework_of, dict.fromkeys(systems)))
    return {
        name: framework_label(framework_of(name))
        if counts[framework_of(name)] == 1
        else system_label_in_text(name)
        for name in dict.fromkeys(systems)
    }


def trainer_label(name: str) -> str:
    """Return a framework and variant: `<framework> (<variant>)`."""
    framework, _, variant = name.partition("+")
    label = framework_label(framework)
    return f"{label} ({_variant_label(framework, variant)})" if variant else label


def single_process_label(system: str) -> str:
    """Return a single-process system among others of its kind: `<framework> (<variant>)`."""
    return trainer_label(system.replace("/local", ""))


def pair_label(name: str) -> str:
    """Return a pair of frameworks or variants: `<framework> – <framework>`."""
    return " – ".join(trainer_label(trainer) for trainer in name.split("-"))


def network_label(name: str) -> str:
    """Return the display name of a network."""
    return NETWORKS.get(name, name)


def dataset_label(name: str) -> str:
    """Return the display name of a data set."""
    return DATASETS.get(name, name)


def workload_label(network: str, dataset: str) -> str:
    """Return a workload: `LeNet-5 on CIFAR-10`."""
    return f"{network_label(network)} on {dataset_label(dataset)}"


def workload_label_from_name(name: str) -> str:
    """Return a workload whose name is that of the network and of the data set, joined."""
    for dataset in DATASETS:
        if name.endswith(f"-{dataset}"):
            return workload_label(name.removesuffix(f"-{dataset}"), dataset)
    return name


def rate_label(rate_mbit: float | None) -> str:
    """Format the rate of a link: `100 Mbit/s`, `1 Gbit/s`, `no limit`."""
    if rate_mbit is None or not rate_mbit > 0:
        return "no limit"
    return f"{rate_mbit / 1000:g} Gbit/s" if rate_mbit >= 1000 else f"{rate_mbit:g} Mbit/s"


def link_label(link: Link) -> str:
    """Format the link of a host: rate by direction if they differ, and latency."""
    label = rate_label(link.rate_mbit)
    if link.uplink_mbit is not None:
        label += f" to the host, {rate_label(link.uplink_mbit)} from it"
    if link.latency_ms:
        label += f", {link.latency_ms:g} ms"
    return label


def records_by_point(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group records by their sweep points, labelled by what differs between the points.

    The smallest point is first, in whatever order the runs were executed. Servers are a part of the
    point where a system was run with several numbers or placements; otherwise they belong to the
    system.
    """
    records = sorted(records, key=_point_size)
    parts = [_point_parts(record.run) for record in records]
    servers = [_server_parts(record.run) for record in records]
    layouts: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for record, one, layout in zip(records, parts, servers, strict=True):
        layouts.setdefault((record.run.system.name, *one), set()).add(tuple(layout))
    if any(len(each) > 1 for each in layouts.values()):
        parts = [[*one, *layout] for one, layout in zip(parts, servers, strict=True)]
    common = set.intersection(*map(set, parts)) if parts else set()
    points: dict[str, list[Record]] = {}
    for record, (size, *others) in zip(records, parts, strict=True):
        label = ", ".join([size, *(part for part in others if part not in common)])
        points.setdefault(label, []).append(record)
    return points


def _point_size(record: Record) -> tuple[float, ...]:
    """Return the numbers of `_point_parts`, then those of `_server_parts`."""
    run = record.run
    topology, workload, link = run.topology, run.workload, run.topology.link
    return (
        topology.workers,
        run.local_batch,
        topology.hosts or 0,
        topology.threads,
        topology.cpus_per_host or 0,
        link.rate_mbit or inf,
        link.latency_ms or 0,
        workload.optimizer.learning_rate,
        workload.initial_limit or 0,
        topology.servers,
    )


def _point_parts(run: Run) -> list[str]:
    """List what a sweep point consists of: `2 x 42`, `100 Mbit/s`.

    The numbers of the first part are the workers and the examples of each.
    """
    topology, workload = run.topology, run.workload
    limit = workload.initial_limit
    parts = [f"{topology.workers} x {run.local_batch}"]
    parts += [counted(topology.hosts, "host")] if topology.hosts else []
    parts += [counted(topology.threads, "thread")]
    parts += [f"{topology.cpus_per_host:g} CPUs per host"] if topology.cpus_per_host else []
    parts += [] if topology.link.is_unlimited else [link_label(topology.link)]
    parts += [f"learning rate {workload.optimizer.learning_rate:g}"]
    parts += [f"initial weights within {limit:g}"] if limit else []
    parts += [run.input.label(run.system.framework)] if run.input.from_files else []
    return parts


def _server_parts(run: Run) -> list[str]:
    topology = run.topology
    parts = [f"{topology.servers} servers"] if topology.servers > 1 else []
    return parts + (["dedicated servers"] if topology.placement == "dedicated" else [])


def cause_label(level: str, part: str) -> str:
    """Return where a difference lies: `in the backward pass`."""
    if level == "class":
        return f"in operators of the class {part}"
    if level == "operator":
        return f"in the operator {part}"
    return CAUSES.get(part, f"in {part.replace(' + ', ' and ')}")


def capitalise(text: str) -> str:
    """Return a text whose first letter is a capital."""
    return text[:1].upper() + text[1:]
