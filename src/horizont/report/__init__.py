"""What readers see: pictures and tables for the notebooks, and the book made of them."""

from horizont.report import lessons
from horizont.report.agreement import (
    agreement,
)
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
from horizont.report.glossary import (
    glossary,
)
from horizont.report.headline import (
    headline,
)
from horizont.report.incidents import (
    incident_table,
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
from horizont.report.shown import (
    numbers,
    source,
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

__all__ = [
    "Picture",
    "Table",
    "Title",
    "agreement",
    "dataset_facts",
    "dataset_title",
    "distance_picture",
    "experiment_facts",
    "facts",
    "fault_table",
    "glossary",
    "headline",
    "incident_table",
    "lessons",
    "link_picture",
    "loss_picture",
    "machine_facts",
    "network_picture",
    "numbers",
    "panels",
    "phase_picture",
    "phase_table",
    "quality_picture",
    "read_results",
    "replay_table",
    "resource_pictures",
    "resource_table",
    "result_table",
    "sample",
    "scaling_picture",
    "source",
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
    "workload_title",
    "worst_distances",
]
