"""What Kafka's files say against the defaults, of topics whose configs nobody tells."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.gateway.metadata import unknown_configs
from headgate.gateway.metadata.unknown_configs import GRACE_MS
from headgate.storage.config import LogConfig
from headgate.storage.directory import kafka_directory
from headgate.storage.segment.index import TimeIndex
from headgate.storage.tests.crashing_files import CrashingFiles

STOPPED_MS = 1_700_000_000_000
DEFAULTS = LogConfig(retention_ms=1000, retention_bytes=100)
OLD = STOPPED_MS - GRACE_MS - DEFAULTS.retention_ms - 1
BY_TIME = {"t": {"retention.ms": "-1"}}


def a_directory(*segments: tuple[int, int, bytes | None]) -> CrashingFiles:
    """A partition t-0 with segments: when each was last written to, its bytes, its time index."""
    files = CrashingFiles()
    files.make_directories("/data/t-0")
    files.write("/data/meta.properties", b"version=0\nbroker.id=3\ncluster.id=abcdefghijklmnopqrstuv\n")
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        files.write(f"/data/{name}", b"")
    files.set_modified_ms("/data/recovery-point-offset-checkpoint", STOPPED_MS)
    for base, (written_ms, size, times) in enumerate(segments):
        path = f"/data/t-0/{base:020d}"
        files.write(f"{path}.log", bytes(size))
        files.set_modified_ms(f"{path}.log", written_ms)
        if times is not None:
            files.write(f"{path}.timeindex", times)
    return files


def contradicting(files: CrashingFiles, defaults: LogConfig = DEFAULTS, *known: str) -> Mapping[str, Mapping[str, str]]:
    return unknown_configs.contradicting(files, kafka_directory.survey(files, ["/data"]), defaults, known)


def test_records_that_should_be_gone_by_age() -> None:
    assert contradicting(a_directory((OLD, 1, None))) == BY_TIME
    assert contradicting(a_directory((OLD + 1, 1, None))) == {}
    assert contradicting(a_directory((OLD, 1, None)), DEFAULTS, "t") == {}
    assert contradicting(a_directory((OLD, 1, None)), LogConfig(retention_ms=-1)) == {}
    assert contradicting(a_directory((OLD, 1, None)), LogConfig(retention_ms=1000, cleanup_policy=("compact",))) == {}
    assert contradicting(a_directory()) == {}


def test_their_own_times_count() -> None:
    """A file that was copied looks new; room that a killed Kafka had made in the index is no time."""
    entries = TimeIndex.ENTRY.pack(OLD - 5, 0) + TimeIndex.ENTRY.pack(OLD, 3)
    assert contradicting(a_directory((STOPPED_MS, 1, entries))) == BY_TIME
    assert contradicting(a_directory((STOPPED_MS, 1, entries + b"cut"))) == BY_TIME
    assert contradicting(a_directory((STOPPED_MS, 1, entries + bytes(12)))) == {}
    assert contradicting(a_directory((OLD, 1, TimeIndex.ENTRY.pack(STOPPED_MS, 3)))) == {}
    assert contradicting(a_directory((OLD, 1, b""))) == BY_TIME


def test_records_that_should_be_gone_by_size() -> None:
    new = STOPPED_MS - GRACE_MS
    by_size = {"t": {"retention.bytes": "-1"}}
    assert contradicting(a_directory((new - 1, 9, None), (new - 1, 60, None), (new - 1, 40, None))) == by_size
    assert contradicting(a_directory((new - 1, 9, None), (new - 1, 60, None), (new - 1, 39, None))) == {}
    assert contradicting(a_directory((new - 1, 9, None), (new - 1, 60, None), (new, 40, None))) == {}
    both = {"t": {"retention.ms": "-1", "retention.bytes": "-1"}}
    assert contradicting(a_directory((OLD, 9, None), (new - 1, 100, None))) == both


def test_what_was_compacted() -> None:
    files = a_directory((OLD, 1, None))
    files.write("/data/cleaner-offset-checkpoint", b"0\n1\nt 0 5\n")
    assert contradicting(files) == {"t": {"cleanup.policy": "compact"}}
    files.write("/data/cleaner-offset-checkpoint", b"cut")
    assert contradicting(files) == BY_TIME


def test_nobody_knows_when_kafka_stopped() -> None:
    """It may have been today."""
    files = a_directory((STOPPED_MS, 1, None))
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        files.remove(f"/data/{name}")
    assert contradicting(files) == BY_TIME
