"""Names as people write them. An unknown name is shown as it is."""

from __future__ import annotations

FRAMEWORKS = {"tensorflow": "TensorFlow", "pytorch": "PyTorch", "mxnet": "MXNet"}
NETWORKS = {
    "alexnet": "AlexNet",
    "alexnet-small": "AlexNet (small)",
    "inception": "Inception",
    "lenet": "LeNet (20/50/500)",
    "lenet5": "LeNet-5",
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
CLASSES = {
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
PARTS = {
    "load": "load",
    "forward": "forward",
    "backward": "backward",
    "waiting": "waiting",
    "communication": "communication",
    "update": "update",
    "other": "other",
}
STARTUP = {
    "interpreter": "Python",
    "framework": "framework",
    "data": "data",
    "network": "network",
    "first_step": "first step",
}
SEGMENTS = {
    "start-up": "start-up",
    "warmup": "warm-up",
    "bare": "bare",
    "instrumented": "instrumented",
}


def framework_of(system: str) -> str:
    """Tell the framework of a system, as it is called in settings."""
    return system.split("/", maxsplit=1)[0]


def framework(name: str) -> str:
    """Name a framework."""
    return FRAMEWORKS.get(name, name)


def mode(system: str) -> str:
    """Name what sets a system apart within its framework: `synchronous, all-reduce`."""
    _, sync, *architecture = system.split("/")
    if not architecture:
        return "one process"
    return f"{SYNC.get(sync, sync)}, {ARCHITECTURES.get(architecture[0], architecture[0])}"


def system(name: str) -> str:
    """Name a system on one line."""
    return f"{framework(framework_of(name))}, {mode(name)}"


def network(name: str) -> str:
    """Name a network."""
    return NETWORKS.get(name, name)


def workload(network: str, dataset: str) -> str:
    """Name a workload: `LeNet-5 on CIFAR-10`."""
    return f"{NETWORKS.get(network, network)} on {DATASETS.get(dataset, dataset)}"


def dataset(name: str) -> str:
    """Name a data set."""
    return DATASETS.get(name, name)


def pair(name: str) -> str:
    """Name a pair of frameworks: `MXNet – PyTorch`."""
    return " – ".join(framework(each) for each in name.split("-"))
