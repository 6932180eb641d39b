"""What readers see: pictures and tables for the notebooks, and the book made of them."""

from horizont.report.clusterpictures import (
    link_picture,
    scaling_picture,
    traffic_picture,
)
from horizont.report.findings import (
    fault_table,
    replay_table,
    staleness_table,
    verdict,
    worst_distances,
)
from horizont.report.headline import (
    headline,
)
from horizont.report.incidents import (
    incident_table,
)
from horizont.report.operators import (
    operator_class_table,
    operator_picture,
    profile_table,
    slowest_table,
)
from horizont.report.picture import (
    Picture,
    Title,
)
from horizont.report.pictures import (
    distance_picture,
    loss_picture,
    network_picture,
    phase_picture,
    quality_picture,
    resource_pictures,
    resource_table,
    sample,
    staleness_picture,
    startup_picture,
    throughput_picture,
)
from horizont.report.results import (
    experiment_title,
    panels,
    read_results,
    result_table,
    speed_table,
)
from horizont.report.settings import (
    dataset_facts,
    experiment_facts,
    machine_facts,
    study_facts,
    system_facts,
)
from horizont.report.tables import (
    Table,
    facts,
    phase_table,
    table,
)
from horizont.report.titles import (
    dataset_title,
    workload_title,
)
from horizont.report.verdictpictures import (
    drill_table,
    verdict_table,
    waterfall_picture,
    waterfall_pictures,
)
from horizont.report.why import (
    explanations,
)

__all__ = [
    "Picture",
    "Table",
    "Title",
    "dataset_facts",
    "dataset_title",
    "distance_picture",
    "drill_table",
    "experiment_facts",
    "experiment_title",
    "explanations",
    "facts",
    "fault_table",
    "headline",
    "incident_table",
    "link_picture",
    "loss_picture",
    "machine_facts",
    "network_picture",
    "operator_class_table",
    "operator_picture",
    "panels",
    "phase_picture",
    "phase_table",
    "profile_table",
    "quality_picture",
    "read_results",
    "replay_table",
    "resource_pictures",
    "resource_table",
    "result_table",
    "sample",
    "scaling_picture",
    "slowest_table",
    "speed_table",
    "staleness_picture",
    "staleness_table",
    "startup_picture",
    "study_facts",
    "system_facts",
    "table",
    "throughput_picture",
    "traffic_picture",
    "verdict",
    "verdict_table",
    "waterfall_picture",
    "waterfall_pictures",
    "workload_title",
    "worst_distances",
]
