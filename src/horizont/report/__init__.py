"""What readers see: pictures and tables for the notebooks, and the book made of them."""

from horizont.report import lessons
from horizont.report.advice import (
    advice_sentence,
    advice_table,
    advice_tables,
)
from horizont.report.agreement import (
    agreement,
)
from horizont.report.claims import (
    claim_counts,
    claim_table,
    claim_texts,
    source_facts,
    then_now_pictures,
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
from horizont.report.frameworks import (
    asked_table,
    backend_table,
    criteria_table,
    historical_table,
    sync_table,
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
from horizont.report.inputs import (
    input_picture,
    input_table,
    reader_table,
)
from horizont.report.monitor import (
    LiveView,
    live_page,
    watch,
)
from horizont.report.operators import (
    operator_class_table,
    operator_picture,
    profile_phase_table,
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
    sample,
    staleness_picture,
    startup_picture,
    throughput_picture,
)
from horizont.report.resources import (
    command_picture,
    other_resource_pictures,
    resource_pictures,
    resource_table,
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
from horizont.report.shown import (
    Column,
    column,
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
    "Column",
    "LiveView",
    "Picture",
    "Table",
    "Title",
    "advice_sentence",
    "advice_table",
    "advice_tables",
    "agreement",
    "asked_table",
    "backend_table",
    "claim_counts",
    "claim_table",
    "claim_texts",
    "column",
    "command_picture",
    "criteria_table",
    "dataset_facts",
    "dataset_title",
    "distance_picture",
    "drill_table",
    "experiment_facts",
    "experiment_title",
    "explanations",
    "facts",
    "fault_table",
    "glossary",
    "headline",
    "historical_table",
    "incident_table",
    "input_picture",
    "input_table",
    "lessons",
    "link_picture",
    "live_page",
    "loss_picture",
    "machine_facts",
    "network_picture",
    "numbers",
    "operator_class_table",
    "operator_picture",
    "other_resource_pictures",
    "panels",
    "phase_picture",
    "phase_table",
    "profile_phase_table",
    "profile_table",
    "quality_picture",
    "read_results",
    "reader_table",
    "replay_table",
    "resource_pictures",
    "resource_table",
    "result_table",
    "sample",
    "scaling_picture",
    "slowest_table",
    "source",
    "source_facts",
    "speed_table",
    "staleness_picture",
    "staleness_table",
    "startup_picture",
    "study_facts",
    "sync_table",
    "system_facts",
    "table",
    "then_now_pictures",
    "throughput_picture",
    "traffic_picture",
    "verdict",
    "verdict_table",
    "watch",
    "waterfall_picture",
    "waterfall_pictures",
    "workload_title",
    "worst_distances",
]
