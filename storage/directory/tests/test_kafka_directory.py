"""Directories of Apache Kafka: told from ours, looked through without a trace, and Kafka's metadata log in them."""

from __future__ import annotations

import pytest

from headgate.protocol.records.batch import Record, build, read_header
from headgate.storage.directory import kafka_directory
from headgate.storage.directory.kafka_directory import CLUSTER_METADATA, OWN_METADATA
from headgate.storage.disk.layout import Meta, write_meta, write_topic_id
from headgate.storage.errors import BadFile, StorageError
from headgate.storage.files import Files
from headgate.storage.log.producers import Producers
from headgate.storage.tests.builders import numbered, open_store
from headgate.storage.tests.crashing_files import CrashingFiles

IDS = [bytes([number]) * 16 for number in range(4)]
METADATA = f"/data/{CLUSTER_METADATA}-0"


def kafkas(*names: str, meta: bytes | None = b"version=0\nbroker.id=3\ncluster.id=abc\n") -> CrashingFiles:
    files = CrashingFiles()
    files.make_directories("/data")
    for name in names:
        files.make_directories(f"/data/{name}")
        if not name.startswith(CLUSTER_METADATA):
            files.write(f"/data/{name}/{0:020d}.log", b"")
    if meta is not None:
        files.write("/data/meta.properties", meta)
    return files


def described(files: Files) -> str:
    with pytest.raises(StorageError) as caught:
        kafka_directory.survey(files, ["/data"])
    return str(caught.value)


@pytest.mark.parametrize(
    "names, expected",
    [
        (["t-0"], True),
        ([f"{CLUSTER_METADATA}-0"], True),
        ([], False),
        (["lost+found", f"t-0.{'0' * 32}-delete"], False),
        (["t-0", OWN_METADATA], False),
        ([OWN_METADATA + ".adopting", "t-0"], True),
    ],
)
def test_whose_a_directory_is(names: list[str], expected: bool) -> None:
    files = kafkas(*names)
    writes = files.writes
    assert kafka_directory.is_kafka_directory(files, ["/data", "/nowhere"]) is expected
    if expected:
        with pytest.raises(StorageError, match=r"headgate serve --adopt"):
            kafka_directory.refuse(files, ["/data", "/nowhere"])
    else:
        kafka_directory.refuse(files, ["/data", "/nowhere"])
    assert files.writes == writes


def test_one_of_several_directories_has_the_metadata() -> None:
    files = kafkas("t-0")
    files.make_directories(f"/more/{OWN_METADATA}")
    assert not kafka_directory.is_kafka_directory(files, ["/data", "/more"])


def test_what_a_survey_finds() -> None:
    files = kafkas("t-0", "t-1", "u.v-12", f"{CLUSTER_METADATA}-0", "lost+found", f"t-2.{'0' * 32}-delete")
    write_topic_id(files, "/data/t-0", IDS[1])
    files.write("/data/t-0/leader-epoch-checkpoint", b"0\n2\n0 0\n5 10\n")
    producers = Producers()
    for producer_id in (7, 12):
        producers.record(read_header(numbered(0, producer_id=producer_id)), 0)
    files.write("/data/t-1/00000000000000000100.snapshot", producers.to_snapshot())
    files.write("/data/t-1/00000000000000000050.snapshot", b"not looked at")
    files.write("/data/u.v-12/leader-epoch-checkpoint", b"nonsense")
    files.write("/data/u.v-12/00000000000000000050.snapshot", b"nonsense")
    writes = files.writes
    found = kafka_directory.survey(files, ["/data"])
    assert found.meta == Meta("abc", 3, "", 0)
    assert found.cluster_metadata == METADATA
    assert found.partitions == {
        ("t", 0): ("/data/t-0", IDS[1], 5, 0),
        ("t", 1): ("/data/t-1", None, -1, 13),
        ("u.v", 12): ("/data/u.v-12", None, -1, 0),
    }
    assert files.writes == writes


def test_what_contradicts_itself() -> None:
    assert "no meta.properties" in described(kafkas("t-0", meta=None))
    assert "names no node.id" in described(kafkas("t-0", meta=b"version=0\n"))
    files = kafkas("t-0")
    files.make_directories("/more/t-0")
    files.write(f"/more/t-0/{0:020d}.log", b"")
    with pytest.raises(StorageError, match=r"no meta.properties"):
        kafka_directory.survey(files, ["/data", "/more"])
    write_meta(files, "/more", Meta("abc", 3, "x"))
    with pytest.raises(StorageError, match=r"t-0 is in /more and in /data/t-0"):
        kafka_directory.survey(files, ["/data", "/more"])
    files.rename("/more/t-0", "/more/t-1")
    assert kafka_directory.survey(files, ["/data", "/more"]).partitions.keys() == {("t", 0), ("t", 1)}
    write_meta(files, "/more", Meta("abc", 4, "x"))
    with pytest.raises(StorageError, match=r"node 3 of cluster abc, /more to node 4 of cluster abc"):
        kafka_directory.survey(files, ["/data", "/more"])


def test_directories_that_only_have_such_a_name_are_not_taken() -> None:
    files = kafkas()
    files.make_directories("/data/holiday-24")
    files.make_directories("/data/empty-0")
    for name in ("beach.jpg", "notes.tmp", "beach.index", "today.log"):
        files.write(f"/data/holiday-24/{name}", b"mine")
    files.write("/data/letter-3", b"a file")
    assert not kafka_directory.is_kafka_directory(files, ["/data"])
    files.make_directories("/data/t-0")
    files.write(f"/data/t-0/{0:020d}.log", b"")
    found = kafka_directory.survey(files, ["/data"])
    assert found.partitions.keys() == {("t", 0)}
    assert found.others == ["/data/empty-0", "/data/holiday-24"]


def test_kafkas_metadata_stays_as_it_is() -> None:
    files = kafkas(f"{CLUSTER_METADATA}-0", OWN_METADATA, meta=b"version=1\nnode.id=0\ncluster.id=abc\n")
    files.write(f"{METADATA}/00000000000000000000.log", b"whatever is in it")
    store = open_store(files)
    assert [topic for topic, _ in store.logs] == ["__headgate_metadata"]
    assert store.failed == {}
    store.close()
    assert files.list(METADATA) == {"00000000000000000000.log": 17}


# Kafka's metadata log


def batch_of(first: int, count: int) -> bytes:
    return bytes(build([Record(value=b"%d" % number) for number in range(first, first + count)], base_offset=first))


def control(offset: int) -> bytes:
    return bytes(build([Record(key=b"k", value=b"never")], base_offset=offset, is_control=True))


def values(files: Files) -> list[int]:
    return [int(value) for value in kafka_directory.metadata_values(files, METADATA)]


def metadata(**content: bytes) -> CrashingFiles:
    files = kafkas(f"{CLUSTER_METADATA}-0")
    for name, data in content.items():
        files.write(f"{METADATA}/{name[1:].replace('_', '-')}", data)
    return files


def log_at(offset: int) -> str:
    return f"_{offset:020d}.log"


def checkpoint_at(offset: int) -> str:
    return f"_{offset:020d}_0000000005.checkpoint"


def test_a_log_without_a_checkpoint() -> None:
    files = metadata(**{log_at(0): control(0) + batch_of(1, 3), log_at(4): batch_of(4, 2) + control(6)})
    assert values(files) == [1, 2, 3, 4, 5]


def test_the_newest_checkpoint_and_what_comes_behind_it() -> None:
    files = metadata(
        **{
            checkpoint_at(3): b"never looked at",
            checkpoint_at(12): control(0) + batch_of(0, 2) + control(2),
            log_at(0): b"never looked at",
            log_at(10): batch_of(10, 1) + batch_of(11, 3),
            log_at(14): batch_of(14, 1),
            "_leader_epoch_checkpoint": b"",
        }
    )
    assert values(files) == [0, 1, 12, 13, 14]


@pytest.mark.parametrize(
    "content, expected, sentence",
    [
        ({log_at(0): batch_of(0, 2) + batch_of(2, 1)[:-1]}, [0, 1], "ends in the middle of the batch at byte"),
        ({log_at(0): batch_of(0, 2) + batch_of(2, 1)[:30]}, [0, 1], "less than a batch header"),
        ({log_at(0): batch_of(0, 2) + batch_of(2, 1)[:-1] + b"x"}, [0, 1], "the checksum"),
        ({checkpoint_at(4): batch_of(0, 1), log_at(5): batch_of(5, 1)}, [0], "lacks the offsets from 4 to 5"),
        ({log_at(5): batch_of(5, 1)}, [], "lacks the offsets from 0 to 5"),
    ],
)
def test_where_it_cannot_be_read(content: dict[str, bytes], expected: list[int], sentence: str) -> None:
    found: list[int] = []
    files = metadata(**content)
    with pytest.raises(BadFile, match=sentence):
        found.extend(map(int, kafka_directory.metadata_values(files, METADATA)))
    assert found == expected


def test_numbers_as_a_person_reads_them() -> None:
    assert kafka_directory.named([3, 0, 1, 2, 7]) == "0-3, 7"
    assert kafka_directory.named(range(0, 40, 2)) == "0, 2, 4, 6, 8, 10, 12, 14, 16, 18 and 10 more"
