"""The operations of a study, for notebooks and the command line.

A module is imported when one of its names is first used: a command that only starts another
program would otherwise wait seconds for what plots and computes.
"""

from importlib import import_module
from typing import Any

#: Name -> the module that defines it.
_MODULES = {
    "Paths": "paths",
    "available_records": "results",
    "certificate_status": "publish",
    "interact": "lab",
    "judge_claims": "results",
    "load_records": "measure",
    "nearest_records": "results",
    "network_table": "prepare",
    "open_page": "pages",
    "prepare_dataset": "prepare",
    "project_root": "paths",
    "publish": "publish",
    "query_features": "check",
    "quick_comparison": "lab",
    "recommendation_for": "results",
    "recommendations_by_objective": "results",
    "replay_updates": "replay",
    "run_experiment": "measure",
    "run_mutation_tests": "mutation_test",
    "run_notebook": "notebooks",
    "show_quick_comparison": "lab",
    "study_paths": "paths",
    "verify_workload": "verify",
}

__all__ = list(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
