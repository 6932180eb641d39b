"""What a run leaves on disk: versioned, whole or not there at all, checked on reading."""

from horizont.records.files import (
    append_event,
    read_events,
    read_json,
    read_table,
    write_json,
    write_table,
)
from horizont.records.provenance import code_fingerprint, run_key
from horizont.records.record import (
    FORMAT,
    Record,
    RecordWriter,
    find_record,
    read_record,
    writer_alive,
)
from horizont.records.results import FaultReport, ProcessOutcome, RunResult

__all__ = [
    "FORMAT",
    "FaultReport",
    "ProcessOutcome",
    "Record",
    "RecordWriter",
    "RunResult",
    "append_event",
    "find_record",
    "code_fingerprint",
    "writer_alive",
    "read_events",
    "read_json",
    "read_record",
    "read_table",
    "run_key",
    "write_json",
    "write_table",
]
