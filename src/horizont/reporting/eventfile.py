"""Scalars as TensorBoard's event files, without loading a framework.

TensorBoard's own writer asks for a file system of TensorFlow's and so loads it where it is
installed. Its records and messages, which are what a file consists of, need no framework.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pandas as pd

from horizont.errors import UserError


def write_eventfile(path: Path, scalars: pd.DataFrame) -> None:
    """Write scalars as one event file; it appears whole or not at all.

    Parameters
    ----------
    path
        The file; TensorBoard wants ``tfevents`` in its name.
    scalars
        As of `horizont.analysis.scalars`.

    Raises
    ------
    UserError
        If the folder cannot be written.
    """
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    begin_s = float(scalars["time_unix_s"].min()) if len(scalars) else 0.0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            records = RecordWriter(file)
            head = Event(wall_time=begin_s, file_version="brain.Event:2")
            records.write(head.SerializeToString())
            for row in scalars.itertuples():
                value = Summary.Value(tag=row.tag, simple_value=row.value)
                event = Event(wall_time=row.time_unix_s, step=row.step)
                event.summary.CopyFrom(Summary(value=[value]))
                records.write(event.SerializeToString())
        os.replace(temporary, path)
    except OSError as error:
        allowed = f"a folder that can be written ({error.strerror})"
        raise UserError("--logdir", str(path.parent), allowed) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
