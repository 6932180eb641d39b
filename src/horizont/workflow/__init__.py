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
    "advice_on": "advise",
    "advice_otherwise": "advise",
    "done_together": "together",
    "explore": "sliders",
    "framework_answers": "answers",
    "installed_features": "features",
    "judge_claims": "claims",
    "measure": "experiment",
    "measured_in": "chapters",
    "nearest_records": "claims",
    "outline_of": "outline",
    "pooled_batches": "straggling",
    "prepare_dataset": "prepare",
    "project_root": "root",
    "proof_status": "published",
    "prove": "prover",
    "publish": "published",
    "publish_incidents": "published",
    "publish_inputs": "published",
    "records_at_hand": "claims",
    "replay_updates": "replay",
    "run_notebook": "notebook",
    "slowed_runs": "straggling",
    "start_tutorial": "tutorial",
    "study_paths": "paths",
    "trained_first_layer": "trained",
    "try_and_show": "quick_comparison",
    "try_faults": "faults",
    "try_out": "quick_comparison",
    "tutorial_program": "tutorial",
}

__all__ = [
    "Paths",
    "recommendation_for",
    "recommendations_by_objective",
    "done_together",
    "interact",
    "framework_answers",
    "query_features",
    "judge_claims",
    "run_experiment",
    "measured_in",
    "nearest_records",
    "network_table",
    "pooled_batches",
    "prepare_dataset",
    "project_root",
    "certificate_status",
    "verify_workload",
    "publish_metrics",
    "publish_faults",
    "publish_input_pipelines",
    "available_records",
    "replay_updates",
    "run_notebook",
    "slowed_runs",
    "start_tutorial",
    "study_paths",
    "trained_first_layer",
    "show_quick_comparison",
    "run_mutation_tests",
    "quick_comparison",
    "tutorial_program",
]


if not TYPE_CHECKING:  # a type checker would take every name for one of these

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
