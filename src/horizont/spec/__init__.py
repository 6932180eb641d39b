"""What is to be trained, by what, on what: frozen models, checked before anything starts."""

from horizont.spec.base import Frozen, validate
from horizont.spec.build import (
    BUILDS,
    PLAIN,
    Build,
    build_environment,
    check_compiler,
    has_compiler,
)
from horizont.spec.exchange import Exchange
from horizont.spec.faults import FAULT_INFOS, FaultInfo
from horizont.spec.framework import FRAMEWORKS, installed_version
from horizont.spec.incident import Incident
from horizont.spec.job import ProcessJob, TraceJob, TracePass
from horizont.spec.operators import OPERATOR_CLASSES, OTHER, directed
from horizont.spec.run import Run, Steps
from horizont.spec.study import EquivalenceSettings, Experiment, Study, read_study
from horizont.spec.system import SYSTEMS, System, SystemTraits, all_systems, parse_system
from horizont.spec.topology import Link, Topology
from horizont.spec.workload import Optimizer, Workload

__all__ = [
    "BUILDS",
    "FAULT_INFOS",
    "FRAMEWORKS",
    "OPERATOR_CLASSES",
    "OTHER",
    "PLAIN",
    "SYSTEMS",
    "Build",
    "EquivalenceSettings",
    "Exchange",
    "Experiment",
    "FaultInfo",
    "Frozen",
    "Incident",
    "Link",
    "Optimizer",
    "ProcessJob",
    "Run",
    "Steps",
    "Study",
    "System",
    "SystemTraits",
    "Topology",
    "TraceJob",
    "TracePass",
    "Workload",
    "all_systems",
    "build_environment",
    "check_compiler",
    "directed",
    "has_compiler",
    "installed_version",
    "parse_system",
    "read_study",
    "validate",
]
