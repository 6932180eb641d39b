"""What ties the floors together: the verbs of a study, for notebooks and the command line."""

from horizont.pipeline.claims import judge_claims, nearest_records, records_at_hand
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

__all__ = [
    "Paths",
    "installed_features",
    "judge_claims",
    "measure",
    "nearest_records",
    "outline_of",
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
    "study_paths",
    "try_faults",
]
