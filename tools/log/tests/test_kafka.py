"""Kafka's DumpLogSegments, and our commands, on files of a kind that no client of ours makes yet.

Transactions, written by the store as a coordinator would have it, and messages of magic 0 and 1. What clients make is
compared in compat_tests/tools/test_log_command.py.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headgate.protocol.internal.metadata import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    encode,
)
from headgate.protocol.internal.metadata_snapshot import encode_steps
from headgate.protocol.records import legacy
from headgate.protocol.records.batch import Record, build
from headgate.protocol.records.compression import GZIP, SNAPPY
from headgate.protocol.steps import finish
from headgate.protocol.tests.definitions import JARS, missing
from headgate.storage.cleanup.retention import begin_segment_deletion
from headgate.storage.log import appending, rolling, segment_deletion
from headgate.storage.log.log import Log
from headgate.storage.log.validation import BROKER
from headgate.storage.tests.builders import marker
from headgate.tools.log import actions
from headgate.tools.log.actions import ErrorMessage
from headgate.tools.log.tests.test_actions import options
from headgate.tools.output import Row
from headgate.tools.tests.log_data import NOW_MS, Data, change


def transact(log: Log, producer_id: int, sequence: int, count: int, *, is_open: bool = False) -> None:
    """Append records of a transaction."""
    made = build(
        [Record(timestamp=NOW_MS, key=b"p%d" % producer_id, value=b"v" * 90)] * count,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
        compression=GZIP if producer_id % 2 else 0,
    )
    appending.append(log, memoryview(made), leader_epoch=0, now_ms=NOW_MS, origin=BROKER)


def end(log: Log, producer_id: int, *, is_commit: bool) -> None:
    appending.append(log, marker(is_commit, producer_id=producer_id), leader_epoch=0, now_ms=NOW_MS, origin=BROKER)


@pytest.fixture
def data(tmp_path: Path) -> Data:
    """Three producers whose transactions overlap, over several segments; some commit, some abort, one stays open."""
    with Data(tmp_path / "data") as made:
        log = made.log()
        for number in range(12):
            for producer_id in (5, 6, 7):
                if number and (number + producer_id) % 3 == 0:
                    end(log, producer_id, is_commit=(number + producer_id) % 2 == 0)
                transact(log, producer_id, number * 2, 2)
        end(log, 5, is_commit=False)
        end(log, 6, is_commit=True)
    return made


def rows(told: Any) -> list[Row]:
    found = list(told)
    assert not [one for one in found if isinstance(one, ErrorMessage)]
    return found


def dump(path: Path, **more: object) -> list[Row]:
    return rows(actions.dump(options(None, paths=[str(path)], **more)))


def test_nothing_is_wrong_with_transactions(data: Data) -> None:
    (row,) = rows(actions.verify(options(data)))
    assert row["indexes"] == "same"
    assert row["segments"] > 2


def test_gaps_are_what_a_committed_reader_does_not_see(data: Data) -> None:
    gaps = dump(data.directory(), gaps=True)
    hidden = {offset: row["reason"] for row in gaps for offset in range(row["first"], row["last"] + 1)}
    records = dump(data.directory())
    assert {row["offset"] for row in records if row["control"]} == {
        offset for offset, reason in hidden.items() if reason == "marker"
    }
    spans = [row for path in sorted(data.directory().glob("*.txnindex")) for row in dump(path)]
    assert spans
    assert {offset for offset, reason in hidden.items() if reason == "aborted"} == {
        row["offset"]
        for row in records
        if not row["control"]
        and any(
            one["producer_id"] == row["producer_id"] and one["first_offset"] <= row["offset"] < one["last_offset"]
            for one in spans
        )
    }


def test_markers_are_decoded(data: Data) -> None:
    shown = [(row["key"], row["value"]) for row in dump(data.directory()) if row["control"]]
    assert shown[-2:] == [
        ({"type": "ABORT"}, {"coordinator_epoch": 0}),
        ({"type": "COMMIT"}, {"coordinator_epoch": 0}),
    ]


def test_an_index_of_aborted_transactions_that_is_wrong(data: Data) -> None:
    path = next(one for one in sorted(data.directory().glob("*.txnindex")) if one.stat().st_size)
    held = path.read_bytes()
    change(path, 20)
    told = list(actions.verify(options(data)))
    failures = [str(one).partition(";")[0] for one in told if isinstance(one, ErrorMessage)]
    assert failures == [f"index: {path.with_suffix('.log')}: .txnindex is wrong"]
    (row,) = rows(actions.repair(options(data)))
    assert row["action"] == "make indexes again"
    assert path.read_bytes() == held
    rows(actions.verify(options(data)))


@pytest.mark.slow
@pytest.mark.sockets
def test_kafkas_tool_has_no_complaint_of_transactions(data: Data) -> None:
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    lines = dumped(*(path for path in sorted(data.directory().iterdir()) if path.suffix in suffixes))
    theirs = [dict(re.findall(r"(\w+): (\S+)", line)) for line in lines if line.startswith("version: 0")]
    ours = [row for path in sorted(data.directory().glob("*.txnindex")) for row in dump(path)]
    assert ours
    assert [
        [int(one[name]) for name in ("producerId", "firstOffset", "lastOffset", "lastStableOffset")] for one in theirs
    ] == [list(row.values()) for row in ours]
    markers = [re.findall(r"offset: (\d+) .* endTxnMarker: (\w+) coordinatorEpoch: (\d+)", line) for line in lines]
    assert [found[0] for found in markers if found] == [
        (str(row["offset"]), row["key"]["type"], str(row["value"]["coordinator_epoch"]))
        for row in dump(data.directory())
        if row["control"]
    ]


# --------------------------------------------------------------------------------------------------------- old formats


def old(directory: Path) -> Path:
    """A segment as a broker before 0.11 left it, and a newer one went on: three formats, plain and compressed."""
    records = [Record(timestamp=NOW_MS + n, key=b"k%d" % n, value=b"v%d" % n) for n in range(3)]
    pieces = [
        legacy.build(records, 0, base_offset=0),
        legacy.build(records, 0, base_offset=3, codec=GZIP),
        legacy.build(records, 1, base_offset=6),
        legacy.build([one._replace(offset=9 + 2 * n) for n, one in enumerate(records)], 1, codec=SNAPPY),
        build(records, base_offset=14),
    ]
    path = directory / f"{0:020}.log"
    path.write_bytes(b"".join(pieces))
    return path


def test_messages_of_old_formats(tmp_path: Path) -> None:
    directory = tmp_path / "old-0"
    directory.mkdir()
    path = old(directory)
    shown = dump(directory)
    assert [row["offset"] for row in shown] == [*range(10), 11, 13, 14, 15, 16]
    assert [row["timestamp"] for row in shown[:7]] == [-1] * 6 + [NOW_MS]
    assert [row["timestamp_type"] for row in shown[::7]] == [None, "CreateTime", "CreateTime"]
    assert [row["key"] for row in shown[3:6]] == ["k0", "k1", "k2"]
    batches = dump(path, batches=True)
    assert [(row["magic"], row["codec"]) for row in batches] == [
        *[(0, "none")] * 3,
        (0, "gzip"),
        *[(1, "none")] * 3,
        (1, "snappy"),
        (2, "none"),
    ]
    gaps = [(row["first"], row["last"], row["reason"]) for row in dump(directory, gaps=True)]
    assert gaps == [(10, 10, "compacted"), (12, 12, "compacted")]


def test_a_damaged_message_is_found_and_moved_aside(tmp_path: Path) -> None:
    directory = tmp_path / "old-0"
    directory.mkdir()
    path = old(directory)
    rows(actions.repair(options(None, paths=[str(directory)])))
    assert not [one for one in actions.verify(options(None, paths=[str(directory)])) if isinstance(one, ErrorMessage)]
    change(path, 12)  # the checksum of the first
    told = list(actions.verify(options(None, paths=[str(directory)])))
    assert any("offsets 0 to 0" in str(one) or "offsets 0" in str(one) for one in told if isinstance(one, ErrorMessage))
    (row,) = rows(actions.repair(options(None, paths=[str(directory)])))
    assert (row["from_byte"], row["lost_from"], row["lost_to"]) == (0, 0, 0)
    assert [row["offset"] for row in dump(directory)] == [*range(1, 10), 11, 13, 14, 15, 16]


# ------------------------------------------------------------------------------------------------- metadata snapshots

METADATA = "__headgate_metadata"
TOPIC = TopicRecord(name="orders", topic_id=b"orders".ljust(16, b"."))
RECORDS: list[MetadataRecord] = [
    RemoveTopicRecord(topic_id=b"gone".ljust(16, b".")),
    FeatureLevelRecord(name="group.version", feature_level=1),
    ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="7000"),
    TOPIC,
    PartitionRecord(
        partition_id=0, topic_id=TOPIC.topic_id, replicas=[0], isr=[0], leader=0, leader_epoch=9, partition_epoch=4
    ),
    ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="5"),
    ProducerIdsRecord(broker_id=0, next_producer_id=3000),
]


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A snapshot, in front of a log that begins where it ends."""
    with Data(tmp_path / "data") as made:
        log = made.log(METADATA)
        for record in RECORDS * 2:
            row = Record(timestamp=NOW_MS, value=encode(record))
            appending.append(log, memoryview(build([row])), leader_epoch=0, now_ms=NOW_MS)
        rolling.roll(log, NOW_MS)
        change_after = Record(timestamp=NOW_MS, value=encode(RECORDS[-1]))
        appending.append(log, memoryview(build([change_after])), leader_epoch=0, now_ms=NOW_MS)
        log.advance_start(len(RECORDS) * 2)
        expired = begin_segment_deletion(log, NOW_MS, log.end_offset)
        assert expired is not None
        expired.rename_files()
        segment_deletion.end(log, expired)
    path = made.directory(METADATA) / f"{len(RECORDS) * 2:020d}-0000000000.checkpoint"
    path.write_bytes(finish(encode_steps(RECORDS, 0, NOW_MS)))
    return path


def test_a_metadata_snapshot_is_shown_decoded(snapshot: Path) -> None:
    shown = dump(snapshot)
    kinds = [row["key"]["type"] if row["control"] else row["value"]["type"] for row in shown]
    names = [type(record).__name__.removesuffix("Record") for record in RECORDS]
    assert kinds == ["SNAPSHOT_HEADER", *names, "SNAPSHOT_FOOTER"]
    assert shown[4]["value"]["name"] == "orders"


def test_the_directory_of_a_metadata_snapshot_is_as_it_should_be(snapshot: Path) -> None:
    (row,) = rows(actions.verify(options(None, paths=[str(snapshot.parent)])))
    assert (row["segments"], row["indexes"]) == (1, "same")
    (shown,) = dump(snapshot.parent)
    assert (shown["offset"], shown["value"]["type"]) == (len(RECORDS) * 2, "ProducerIds")
    assert not [
        one for one in actions.repair(options(None, paths=[str(snapshot.parent)])) if isinstance(one, ErrorMessage)
    ]
    assert snapshot.exists()


@pytest.mark.slow
@pytest.mark.sockets
def test_kafkas_tool_reads_a_metadata_snapshot(snapshot: Path) -> None:
    lines = dumped(snapshot, decoder="--cluster-metadata-decoder")
    assert f"Snapshot end offset: {len(RECORDS) * 2}, epoch: 0" in lines
    payloads = [json.loads(line.split("payload: ", 1)[1]) for line in lines if "payload: " in line]
    assert [payload["type"] for payload in payloads] == [
        "REMOVE_TOPIC_RECORD",
        "FEATURE_LEVEL_RECORD",
        "CONFIG_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "PRODUCER_IDS_RECORD",
    ]
    assert payloads[3]["data"]["name"] == "orders"
    assert (payloads[4]["data"]["leaderEpoch"], payloads[4]["data"]["partitionEpoch"]) == (9, 4)
    controls = [line for line in lines if "SnapshotHeader" in line or "SnapshotFooter" in line]
    assert [f'"lastContainedLogTimestamp":{NOW_MS}' in line for line in controls] == [True, False]


def dumped(*paths: Path, decoder: str = "--deep-iteration") -> list[str]:
    """What Kafka's tool prints of files; it must not complain of any."""
    jars = JARS / "broker"
    if shutil.which("java") is None or not any(jars.glob("*.jar")):
        missing(f"Java, or the jars in {jars}, are not here: install a JDK and run `make jars`")
    java = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*")
    command = ["java", *java, "kafka.tools.DumpLogSegments", decoder, "--files", ",".join(map(str, paths))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""  # there it says what it finds wrong
    return done.stdout.splitlines()
