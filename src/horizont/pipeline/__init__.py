"""What ties the floors together: the verbs of a study, for notebooks and the command line.

A verb's module is imported when the verb is first asked for: a command that only starts another
program would otherwise wait seconds for what draws and computes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horizont.pipeline.advise import advice_on, advice_otherwise
    from horizont.pipeline.answers import framework_answers
    from horizont.pipeline.chapters import measured_in
    from horizont.pipeline.claims import judge_claims, nearest_records, records_at_hand
    from horizont.pipeline.experiment import measure
    from horizont.pipeline.faults import try_faults
    from horizont.pipeline.features import installed_features
    from horizont.pipeline.notebook import run_notebook
    from horizont.pipeline.outline import outline_of
    from horizont.pipeline.paths import Paths, study_paths
    from horizont.pipeline.prepare import prepare_dataset
    from horizont.pipeline.prover import prove
    from horizont.pipeline.published import proof_status, publish, publish_incidents, publish_inputs
    from horizont.pipeline.replay import replay_updates
    from horizont.pipeline.root import project_root
    from horizont.pipeline.sliders import explore
    from horizont.pipeline.straggling import pooled_batches, slowed_runs
    from horizont.pipeline.together import done_together
    from horizont.pipeline.trained import trained_first_layer
    from horizont.pipeline.tryout import try_and_show, try_out
    from horizont.pipeline.tutorial import start_tutorial, tutorial_program

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
    "try_and_show": "tryout",
    "try_faults": "faults",
    "try_out": "tryout",
    "tutorial_program": "tutorial",
}

__all__ = [
    "Paths",
    "advice_on",
    "advice_otherwise",
    "done_together",
    "explore",
    "framework_answers",
    "installed_features",
    "judge_claims",
    "measure",
    "measured_in",
    "nearest_records",
    "outline_of",
    "pooled_batches",
    "prepare_dataset",
    "project_root",
    "proof_status",
    "prove",
    "publish",
    "publish_incidents",
    "publish_inputs",
    "records_at_hand",
    "replay_updates",
    "run_notebook",
    "slowed_runs",
    "start_tutorial",
    "study_paths",
    "trained_first_layer",
    "try_and_show",
    "try_faults",
    "try_out",
    "tutorial_program",
]


if not TYPE_CHECKING:  # a type checker would take every name for one of these

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
