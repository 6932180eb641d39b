"""What a run leaves on disk: versioned, whole or not there at all, checked on reading."""

from horizont.records.aftermath import Aftermath, Fate
from horizont.records.events import append_event, read_events
from horizont.records.files import read_json, read_table, write_json, write_table
from horizont.records.identity import fingerprint, run_key
from horizont.records.record import (
    FORMAT,
    Record,
    RecordWriter,
    find_record,
    maker_lives,
    read_record,
)
from horizont.records.result import Result

__all__ = [
    "FORMAT",
    "Aftermath",
    "Fate",
    "Record",
    "RecordWriter",
    "Result",
    "append_event",
    "find_record",
    "fingerprint",
    "maker_lives",
    "read_events",
    "read_json",
    "read_record",
    "read_table",
    "run_key",
    "write_json",
    "write_table",
]
