"""What ties the floors together: the verbs of a study, for notebooks and the command line."""

from horizont.pipeline.advise import advice_on, advice_otherwise
from horizont.pipeline.answers import framework_answers
from horizont.pipeline.chapters import measured_in
from horizont.pipeline.claims import judge_claims, nearest_records, records_at_hand
from horizont.pipeline.explore import explore
from horizont.pipeline.faults import try_faults
from horizont.pipeline.features import installed_features
from horizont.pipeline.measure import measure
from horizont.pipeline.notebook import run_notebook
from horizont.pipeline.outline import outline_of
from horizont.pipeline.paths import Paths, study_paths
from horizont.pipeline.prepare import prepare_dataset
from horizont.pipeline.prove import prove
from horizont.pipeline.publish import proof_status, publish, publish_incidents, publish_inputs
from horizont.pipeline.replay import replay_updates
from horizont.pipeline.root import project_root
from horizont.pipeline.straggling import pooled_batches, slowed_runs
from horizont.pipeline.together import done_together
from horizont.pipeline.trained import trained_first_layer
from horizont.pipeline.tutorial import start_tutorial, tutorial_program

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
    "try_faults",
    "tutorial_program",
]
