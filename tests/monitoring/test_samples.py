import numpy as np
import pyarrow as pa
import pytest

from horizont.monitoring.samples import (
    SCHEMA,
    Sample,
    SampleFiles,
    SampleStream,
    finalize,
    read_samples,
    read_stream,
    with_rates,
)


def table(*rows):
    keys = ("sample", "scope", "name", "pid", "cpu_s", "sent_bytes", "steal_s")
    records = []
    for row in rows:
        record = dict(zip(keys, row, strict=False))
        records.append({**record, "time_s": 100 + record["sample"] / 2, "host": "h"})
    return pa.Table.from_pylist(records, schema=SCHEMA)


def test_rates_are_per_series_and_second():
    samples = table(
        (0, "process", "w", 1, 1.0),
        (0, "process", "w", 2, 5.0),
        (0, "interface", "lo", None, None, 100),
        (1, "process", "w", 1, 1.5),
        (1, "process", "w", 2, 5.1),
        (1, "interface", "lo", None, None, 400),
        (4, "process", "w", 1, 1.5),
    )
    rated = with_rates(samples)
    cores = rated["cpu_cores"].to_numpy()
    assert np.isnan(cores[[0, 1, 2, 5]]).all()
    assert cores[[3, 4, 6]] == pytest.approx([1.0, 0.2, 0.0])
    assert rated["sent_rate"][5] == 600
    assert np.isnan(rated["read_rate"].to_numpy()).all()


def test_a_counter_that_fell_has_no_rate_and_a_gap_is_bridged():
    samples = table(
        (0, "interface", "lo", None, None, 900),
        (1, "interface", "lo", None, None, 100),
        (2, "interface", "lo", None, None, None),
        (3, "interface", "lo", None, None, 300),
    )
    rates = with_rates(samples)["sent_rate"].to_numpy()
    assert np.isnan(rates[:3]).all()
    assert rates[3] == 200  # over one second, two samples


def test_a_process_does_not_continue_the_counter_of_another():
    samples = table((0, "process", "w", 1, 1.0), (1, "process", "w", 2, 5.0))
    assert np.isnan(with_rates(samples)["cpu_cores"].to_numpy()).all()


def test_an_empty_table_has_no_rates():
    assert with_rates(SCHEMA.empty_table()).empty


def write_stream(path, batches):
    """Write a stream of one row per batch."""
    stream = SampleStream(path)
    for sample in range(batches):
        stream.rows.append(Sample(sample, sample / 10, 0.0, "h", "host", "h", missed=0))
        stream.flush()
    stream.close()


def test_a_stream_cut_anywhere_gives_its_whole_batches(tmp_path):
    write_stream(tmp_path / "whole", 9)
    content = (tmp_path / "whole").read_bytes()
    lengths = []
    for end in np.linspace(0, len(content), 60, dtype=int):
        (tmp_path / "cut").write_bytes(content[:end])
        lengths.append(len(read_stream(tmp_path / "cut")))
    assert set(lengths) == set(range(10))
    assert lengths == sorted(lengths)


def test_the_table_holds_what_the_stream_held(tmp_path):
    files = SampleFiles(tmp_path)
    write_stream(files.stream, 5)
    streamed = read_samples(tmp_path)
    finalize(files, "stopped", {"missed": 0})
    assert read_samples(tmp_path).equals(streamed)
    assert streamed.num_rows == 5
    assert not files.stream.exists()
