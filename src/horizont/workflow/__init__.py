"""What ties the floors together: the verbs of a study, for notebooks and the command line.

A verb's module is imported when the verb is first asked for: a command that only starts another
program would otherwise wait seconds for what draws and computes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horizont.workflow.answers import framework_answers
    from horizont.workflow.chapters import measured_in
    from horizont.workflow.check import query_features
    from horizont.workflow.lab import interact, quick_comparison, show_quick_comparison
    from horizont.workflow.measure import run_experiment
    from horizont.workflow.mutation_test import run_mutation_tests
    from horizont.workflow.notebooks import run_notebook
    from horizont.workflow.paths import Paths, project_root, study_paths
    from horizont.workflow.prepare import network_table, prepare_dataset
    from horizont.workflow.publish import (
        certificate_status,
        publish_faults,
        publish_input_pipelines,
        publish_metrics,
    )
    from horizont.workflow.replay import replay_updates
    from horizont.workflow.results import (
        available_records,
        judge_claims,
        nearest_records,
        recommendation_for,
        recommendations_by_objective,
    )
    from horizont.workflow.straggling import pooled_batches, slowed_runs
    from horizont.workflow.together import done_together
    from horizont.workflow.trained import trained_first_layer
    from horizont.workflow.tutorial import start_tutorial, tutorial_program
    from horizont.workflow.verify import verify_workload

#: Verb -> the module that has it. No module is named like a verb, or it would hide it.
_MODULES = {
    "Paths": "paths",
    "available_records": "results",
    "certificate_status": "publish",
    "done_together": "together",
    "framework_answers": "answers",
    "interact": "lab",
    "judge_claims": "results",
    "measured_in": "chapters",
    "nearest_records": "results",
    "network_table": "prepare",
    "pooled_batches": "straggling",
    "prepare_dataset": "prepare",
    "project_root": "paths",
    "publish_faults": "publish",
    "publish_input_pipelines": "publish",
    "publish_metrics": "publish",
    "query_features": "check",
    "quick_comparison": "lab",
    "recommendation_for": "results",
    "recommendations_by_objective": "results",
    "replay_updates": "replay",
    "run_experiment": "measure",
    "run_mutation_tests": "mutation_test",
    "run_notebook": "notebooks",
    "show_quick_comparison": "lab",
    "slowed_runs": "straggling",
    "start_tutorial": "tutorial",
    "study_paths": "paths",
    "trained_first_layer": "trained",
    "tutorial_program": "tutorial",
    "verify_workload": "verify",
}

__all__ = [
    "Paths",
    "available_records",
    "certificate_status",
    "done_together",
    "framework_answers",
    "interact",
    "judge_claims",
    "measured_in",
    "nearest_records",
    "network_table",
    "pooled_batches",
    "prepare_dataset",
    "project_root",
    "publish_faults",
    "publish_input_pipelines",
    "publish_metrics",
    "query_features",
    "quick_comparison",
    "recommendation_for",
    "recommendations_by_objective",
    "replay_updates",
    "run_experiment",
    "run_mutation_tests",
    "run_notebook",
    "show_quick_comparison",
    "slowed_runs",
    "start_tutorial",
    "study_paths",
    "trained_first_layer",
    "tutorial_program",
    "verify_workload",
]


if not TYPE_CHECKING:  # a type checker would take every name for one of these

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
