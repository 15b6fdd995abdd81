"""Files of messages: whole, in order, harmless in a spreadsheet, and honest about their bounds."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from typing import Any

import pytest

from headgate.protocol.records.batch import Record
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.messages import export
from headgate.tools.console.messages.query import parse_ranges
from headgate.tools.console.messages.tests.partitions import (
    BOOTSTRAP,
    Clock,
    append,
    decoder_of,
    fill,
    query_of,
    text,
)
from headgate.tools.tests.model_cluster import Log, ModelCluster


def exported(file_format: str, clock: Clock | None = None, **options: Any) -> bytes:
    query = query_of(**{"start": "oldest", "limit": 1000, **options})
    with Cluster(BOOTSTRAP) as cluster:
        parts = export.export(cluster, query, decoder_of(query), file_format, (clock or Clock()).time)
        return b"".join(parts)


@pytest.fixture
def log(model: ModelCluster) -> Log:
    log = Log()
    model.topics["t"].append(log)
    append(
        log,
        [
            Record(-1, 1_700_000_000_123, b"k", b'{"n": 12345678901234567890}', [("h", b"v")]),
            text(2, "=HYPERLINK(1)", "-5"),
            Record(-1, 3, b"\xff", b"\x00\xff\x00\xff\x00", []),
            text(4, None, "gone"),
        ],
    )
    return log


def test_json_lines_have_each_message(log: Log) -> None:
    rows = [json.loads(line) for line in exported("jsonl").splitlines()]
    assert [row["offset"] for row in rows] == [0, 1, 2, 3]
    assert rows[0]["value"] == {"n": 12345678901234567890}
    assert (rows[0]["headers"], rows[0]["timestamp"]) == ([["h", "v"]], 1_700_000_000_123)
    assert rows[1]["value"] == "=HYPERLINK(1)"
    assert rows[2]["value"] == {"base64": "AP8A/wA="}
    assert (rows[3]["kind"], rows[3]["value"], rows[3]["key"]) == ("tombstone", None, "gone")


def test_a_table_runs_nothing_in_a_spreadsheet(log: Log) -> None:
    rows = list(csv.reader(io.StringIO(exported("csv").decode())))
    assert rows[0][:3] == ["partition", "offset", "timestamp"]
    assert rows[1][2] == "2023-11-14T22:13:20.123+00:00"
    assert rows[2][5:7] == ["-5", "'=HYPERLINK(1)"]
    assert rows[3][6] == "00 ff 00 ff 00"


def test_values_are_files_byte_by_byte(log: Log) -> None:
    with tarfile.open(fileobj=io.BytesIO(exported("values"))) as archive:
        files = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
    assert files == {
        "0-0": b'{"n": 12345678901234567890}',
        "0-1": b"=HYPERLINK(1)",
        "0-2": b"\x00\xff\x00\xff\x00",
    }


def test_a_large_value_has_a_sentence_in_its_place(model: ModelCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "LARGEST_VALUE_BYTES", 3)
    fill(model, partitions=1, each=5)
    append(model.topics["t"][0], [text(9, "four")])
    [*_, row] = [json.loads(line) for line in exported("jsonl").splitlines()]
    assert row["value"] is None
    assert "has 4 bytes" in row["problem"]
    assert b"has 4 bytes" in exported("csv")
    assert b"four" in exported("values")


def test_ranges_and_filters_hold_in_the_order_of_partitions(model: ModelCluster) -> None:
    fill(model)
    rows = [json.loads(line) for line in exported("jsonl", ranges=parse_ranges("1:5-7,0:19-20")).splitlines()]
    assert [row["value"] for row in rows] == ["0/19", "1/5", "1/6"]
    rows = [json.loads(line) for line in exported("jsonl", filters={"text": "/.7$/"}).splitlines()]
    assert len(rows) == 6


@pytest.mark.parametrize("file_format", export.FORMATS)
def test_a_file_that_ends_at_a_bound_says_so(model: ModelCluster, file_format: str) -> None:
    fill(model)
    content = exported(file_format, limit=2)
    assert b"the export ends after 2 messages" in content
    assert b"0/2" not in content
    assert b"the export ends after" not in exported(file_format, limit=60)


def test_time_bounds_an_export(model: ModelCluster) -> None:
    fill(model)
    assert b"more may match" in exported("jsonl", Clock(step_s=export.LONGEST_S))


def test_a_partition_that_cannot_be_read_is_a_failure(model: ModelCluster) -> None:
    fill(model)
    model.dead.add(1)
    query = query_of(start="oldest")
    with Cluster(BOOTSTRAP, timeout_s=0.2) as cluster:
        parts = export.export(cluster, query, decoder_of(query), "jsonl", Clock().time)
        with pytest.raises(ClientError, match="t-1"):
            list(parts)
