"""What is to be trained, by what, on what: frozen models, checked before anything starts."""

from horizont.config.base import ConfigModel, parse_config
from horizont.config.faults import FaultSpec
from horizont.config.input import READERS, InputPipeline, ReaderInfo
from horizont.config.jobs import TraceJob, TraceRun, WorkerJob
from horizont.config.mutations import MUTATIONS, MutationInfo
from horizont.config.run import Run, StepCounts
from horizont.config.study import EquivalenceConfig, Experiment, Study, read_study
from horizont.config.system import (
    DEFAULT,
    FRAMEWORKS,
    SYSTEMS,
    VARIANTS,
    GradientExchange,
    System,
    SystemInfo,
    Variant,
    all_systems,
    check_compiler,
    has_compiler,
    installed_version,
    parse_system,
    variant_environment,
)
from horizont.config.topology import Link, Topology
from horizont.config.workload import OptimizerConfig, Workload
from horizont.records.schema import OPERATOR_CLASSES, OTHER_CLASS, directed_class

__all__ = [
    "VARIANTS",
    "MUTATIONS",
    "FRAMEWORKS",
    "OPERATOR_CLASSES",
    "OTHER_CLASS",
    "DEFAULT",
    "READERS",
    "SYSTEMS",
    "Variant",
    "EquivalenceConfig",
    "GradientExchange",
    "Experiment",
    "MutationInfo",
    "ConfigModel",
    "FaultSpec",
    "InputPipeline",
    "Link",
    "OptimizerConfig",
    "WorkerJob",
    "ReaderInfo",
    "Run",
    "StepCounts",
    "Study",
    "System",
    "SystemInfo",
    "Topology",
    "TraceJob",
    "TraceRun",
    "Workload",
    "all_systems",
    "variant_environment",
    "check_compiler",
    "directed_class",
    "has_compiler",
    "installed_version",
    "parse_system",
    "read_study",
    "parse_config",
]
