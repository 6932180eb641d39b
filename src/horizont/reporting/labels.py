"""Names as people write them. An unknown name is shown as it is."""

from __future__ import annotations

from horizont.config.system import FRAMEWORKS, framework_info
from horizont.config.topology import Link

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
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ),
    "fashion-mnist": (
        "T-shirt",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ),
}
ARCHITECTURES = {"allreduce": "all-reduce", "parameter_server": "parameter server"}
SYNC = {"sync": "synchronous", "async": "asynchronous"}
PHASES = {
    "load": "load",
    "forward": "forward",
    "backward": "backward",
    "waiting": "waiting",
    "communication": "communication",
    "update": "update",
    "other": "other",
}
STARTUP_PHASES = {
    "interpreter": "Python",
    "framework": "framework",
    "data": "data",
    "network": "network",
    "input_batches": "input alone",
    "first_step": "first step",
}
SEGMENTS = {
    "start-up": "start-up",
    "warmup": "warm-up",
    "timed": "timed",
    "instrumented": "instrumented",
    "profiled": "profiled",
    "evaluation": "evaluation",
}


#: What the steps of a system differ by, as it follows a time: `5.3 ms (47 %) are ...`.
CAUSES = {
    "local": "in the worker's own work",
    "load": "in loading batches",
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "waiting": "in waiting for the other workers",
    "communication": "in communication",
    "update": "in the update",
    "other": "outside of the phases",
}


def framework_of(system: str) -> str:
    """Tell the framework of a system, as it is called in settings."""
    return system.split("/", maxsplit=1)[0]


def variant_of(system: str) -> str:
    """Tell the build of a system, as it is called in settings; nothing of a plain one."""
    return system.partition("+")[2]


def framework_label(name: str) -> str:
    """Return the display name of a framework; an unknown name is returned unchanged."""
    return framework_info(name).label if name in FRAMEWORKS else name


def variant_label(framework: str, variant: str) -> str:
    """Return the display name of a variant."""
    known = framework_info(framework).variants if framework in FRAMEWORKS else {}
    return (known[variant].label if variant in known else "") or variant


def synchronisation_label(system: str) -> str:
    """Name what sets a system apart within its framework: `synchronous, all-reduce`."""
    _, sync, *architecture = system.partition("+")[0].split("/")
    said = ["one process"]
    if architecture:
        said = [SYNC.get(sync, sync), ARCHITECTURES.get(architecture[0], architecture[0])]
    variant = variant_of(system)
    return ", ".join([*said, variant_label(framework_of(system), variant)] if variant else said)


def system_label(name: str) -> str:
    """Name a system on one line."""
    return f"{framework_label(framework_of(name))}, {synchronisation_label(name)}"


def network_label(name: str) -> str:
    """Name a network."""
    return NETWORKS.get(name, name)


def workload_label(network: str, dataset: str) -> str:
    """Name a workload: `LeNet-5 on CIFAR-10`."""
    return f"{NETWORKS.get(network, network)} on {DATASETS.get(dataset, dataset)}"


def workload_label_from_name(name: str) -> str:
    """Name a workload by what it is called in settings: network and data set, joined."""
    for dataset_name in DATASETS:
        if name.endswith(f"-{dataset_name}"):
            return workload_label(name.removesuffix(f"-{dataset_name}"), dataset_name)
    return name


def dataset_label(name: str) -> str:
    """Name a data set."""
    return DATASETS.get(name, name)


def pair_label(name: str) -> str:
    """Name a pair of frameworks, or of a framework and its build: `MXNet – PyTorch`."""
    return " – ".join(trainer_label(each) for each in name.split("-"))


def trainer_label(name: str) -> str:
    """Name a framework with its build: `PyTorch (torch.compile)`."""
    framework, _, variant = name.partition("+")
    label = framework_label(framework)
    return f"{label} ({variant_label(framework, variant)})" if variant else label


def single_process_label(system: str) -> str:
    """Name a system of one process where all are: `PyTorch (torch.compile)`."""
    build = variant_of(system)
    return trainer_label(f"{framework_of(system)}+{build}" if build else framework_of(system))


SETTINGS = {
    "global_batch": "examples of a global batch",
    "local_batch": "examples of each worker in a step",
    "link": "link of each host",
    "cpus_per_host": "processors of each host",
    "placement": "place of the servers",
    "hosts": "addresses",
    "input": "input",
}


def setting_label(name: str) -> str:
    """Name a setting that an experiment varies."""
    return SETTINGS.get(name, name)


def rate_label(rate_mbit: float | None) -> str:
    """Write the rate of a link: `100 Mbit/s`, `1 Gbit/s`; nothing is no limit."""
    if rate_mbit is None or not rate_mbit > 0:
        return "no limit"
    return f"{rate_mbit / 1000:g} Gbit/s" if rate_mbit >= 1000 else f"{rate_mbit:g} Mbit/s"


def link_label(link: Link) -> str:
    """Write a link of an emulated host."""
    said = rate_label(link.rate_mbit)
    if link.uplink_mbit is not None:
        said += f" to the host, {rate_label(link.uplink_mbit)} from it"
    if link.latency_ms:
        said += f", {link.latency_ms:g} ms"
    return said


def cause_label(level: str, part: str) -> str:
    """Say where a difference is: `in the backward pass`."""
    if level == "class":
        return f"in operators of the class {part}"
    if level == "operator":
        return f"in the operator {part}"
    joined = " and ".join(PHASES.get(each, each) for each in part.split(" + "))
    return CAUSES.get(part, f"in {joined}")
