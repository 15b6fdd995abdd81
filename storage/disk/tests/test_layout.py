"""Names and small files of data directories."""

from __future__ import annotations

import errno
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.storage.disk import layout
from headgate.storage.disk.layout import Meta
from headgate.storage.errors import BadFile, StorageError
from headgate.storage.tests.crashing_files import CrashingFiles


def new_files() -> CrashingFiles:
    files = CrashingFiles()
    files.make_directories("/data")
    return files


def owned(files: CrashingFiles, directory: str, node_id: int, cluster_id: str | None, random: Random) -> Meta:
    """The identity of a directory, written into a new one."""
    meta = layout.identify(files, directory, node_id, cluster_id, random)
    layout.own(files, directory, meta)
    return meta


@pytest.mark.parametrize(
    "name,expected",
    [("t-0", ("t", 0)), ("a.b_c-d-12", ("a.b_c-d", 12)), ("__cluster_metadata-0", ("__cluster_metadata", 0))],
)
def test_partition_names(name: str, expected: tuple[str, int]) -> None:
    assert layout.parse_partition(name) == expected
    assert layout.partition_name(*expected) == name


@pytest.mark.parametrize("name", ["lost+found", "t", "t-", "-0", "t-x", "t-0.0123456789abcdef0123456789abcdef-delete"])
def test_other_names(name: str) -> None:
    assert layout.parse_partition(name) is None


@pytest.mark.parametrize("topic", ["t", "a-b.c", "x" * 249])
def test_deleted_names(topic: str) -> None:
    name = layout.deleted_name(topic, 3, Random(1))
    assert layout.is_deleted(name)
    assert layout.parse_partition(name) is None
    assert len(name) <= 255
    assert name.startswith(topic[:200])
    assert not layout.is_deleted(f"{topic}-3")


@given(st.binary(min_size=16, max_size=16))
@settings(max_examples=50)
def test_ids(value: bytes) -> None:
    text = layout.format_id(value)
    assert (len(text), layout.parse_id(text)) == (22, value)


@pytest.mark.parametrize("text", ["", "short", "c6m-9Jm79Nx70qTyyK9b2Q0000", "c6m-9Jm79Nx70qTyyK9b$Q"])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  base64's own words
        layout.parse_id(text)


def test_a_new_directory_gets_an_identity() -> None:
    files = new_files()
    meta = owned(files, "/data", 5, None, Random(1))
    assert (meta.node_id, len(meta.cluster_id), len(meta.directory_id)) == (5, 22, 22)
    lines = files.read("/data/meta.properties").decode().splitlines()
    assert lines == [
        "#",
        f"cluster.id={meta.cluster_id}",
        f"directory.id={meta.directory_id}",
        "node.id=5",
        "version=1",
    ]
    assert owned(files, "/data", 5, None, Random(2)) == meta
    assert owned(files, "/data", 5, meta.cluster_id, Random(2)) == meta
    assert owned(new_files(), "/data", 5, "mine", Random(1)).cluster_id == "mine"


def test_ids_do_not_look_like_options() -> None:
    assert not any(layout.random_id(Random(seed)).startswith("-") for seed in range(200))


def test_another_nodes_directory_is_refused() -> None:
    files = new_files()
    owned(files, "/data", 5, "mine", Random(1))
    with pytest.raises(StorageError, match=r"belongs to node\.id=5, not 6"):
        owned(files, "/data", 6, None, Random(1))
    with pytest.raises(StorageError, match="belongs to cluster mine, not other"):
        owned(files, "/data", 5, "other", Random(1))


def test_a_lost_identity_is_not_guessed() -> None:
    files = new_files()
    files.make_directories("/data/t-0")
    with pytest.raises(StorageError, match=r"holds t-0 but no meta\.properties"):
        owned(files, "/data", 5, None, Random(1))
    files.write("/data/meta.properties", b"version=1\n")
    with pytest.raises(BadFile, match=r"names no node\.id"):
        layout.read_meta(files, "/data")


def test_another_directory_of_the_same_path_is_known() -> None:
    files = new_files()
    meta = owned(files, "/data", 5, "mine", Random(1))
    layout.check_same(files, "/data", meta)
    layout.write_meta(files, "/data", meta._replace(directory_id=""))
    layout.check_same(files, "/data", meta)  # it could not be written down
    for other in (meta._replace(directory_id="x"), meta._replace(node_id=6), meta._replace(cluster_id="other")):
        layout.write_meta(files, "/data", other)
        with pytest.raises(OSError, match="is the right disk mounted"):
            layout.check_same(files, "/data", meta)
    files.write("/data/meta.properties", b"")
    with pytest.raises(OSError, match=f"Errno {errno.ENODEV}"):
        layout.check_same(files, "/data", meta)
    files.remove("/data/meta.properties")
    with pytest.raises(OSError, match=r"/data/meta\.properties is gone"):
        layout.check_same(files, "/data", meta)


def test_of_a_disk_that_cannot_be_read_its_error_is_told() -> None:
    files = new_files()
    meta = owned(files, "/data", 5, "mine", Random(1))
    files.fail(errno.EIO, "look")
    with pytest.raises(OSError, match=f"Errno {errno.EIO}"):
        layout.check_same(files, "/data", meta)


def test_kafkas_own_files_are_read() -> None:
    files = new_files()
    files.write("/data/meta.properties", b"#\n#Mon Jan 01 00:00:00 UTC 2024\nbroker.id=2\nversion=0\ncluster.id=abc\n")
    assert layout.read_meta(files, "/data") == Meta("abc", 2, "", 0)


def test_the_version_of_kafka_with_zookeeper_stays() -> None:
    files = new_files()
    files.write("/data/meta.properties", b"#\nbroker.id=2\nversion=0\ncluster.id=abc\n")
    meta = owned(files, "/data", 2, "abc", Random(1))
    assert len(meta.directory_id) == 22
    lines = files.read("/data/meta.properties").decode().splitlines()
    assert lines == ["#", "cluster.id=abc", f"directory.id={meta.directory_id}", "broker.id=2", "version=0"]
    assert owned(files, "/data", 2, "abc", Random(1)) == meta


def test_topic_ids() -> None:
    files = new_files()
    assert layout.read_topic_id(files, "/data") is None
    layout.write_topic_id(files, "/data", bytes(range(16)))
    assert files.read("/data/partition.metadata") == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert layout.read_topic_id(files, "/data") == bytes(range(16))
    for damaged in (b"", b"version: 0\n", b"version: 0\ntopic_id: AAEC"):
        files.write("/data/partition.metadata", damaged)
        with pytest.raises(BadFile, match=r"partition\.metadata names no topic id"):
            layout.read_topic_id(files, "/data")


@pytest.mark.parametrize(
    "name, expected",
    [
        (f"{7:020d}.log", 7),
        (f"{7:020d}.txnindex.swap", 7),
        (f"{7:020d}.index.12.deleted", 7),
        (f"{7:020d}.log.swap.3.deleted", 7),
        (f"{7:020d}.log.4096.torn", 7),
        (f"{7:020d}.snapshot", 7),
        (f"{7:020d}-mine.log", None),
        (f"{7:020d}.log.mine", None),
        (f"{7:020d}.jpg", None),
        (f"{7:019d}.log", None),
        ("notes.log", None),
        ("leader-epoch-checkpoint", None),
    ],
)
def test_the_base_offset_in_a_name(name: str, expected: int | None) -> None:
    assert layout.base_of(name) == expected
    assert layout.is_of_log(name) is (expected is not None or name == "leader-epoch-checkpoint")


@pytest.mark.parametrize(
    "name, expected",
    [
        (f"{7:020d}-{0:010d}.checkpoint", True),
        (f"{7:020d}-{0:010d}.checkpoint.tmp", True),
        (f"{7:020d}-{0:010d}.checkpoint.bak", False),
        (f"{7:020d}.checkpoint", False),
        ("leader-epoch-checkpoint.tmp", True),
        ("my.checkpoint", False),
    ],
)
def test_snapshots_of_metadata_are_a_logs(name: str, expected: bool) -> None:
    assert layout.is_of_log(name) is expected
    assert layout.is_no_partition([name]) is not expected
    assert layout.base_of(name) is None
    assert not layout.holds_nothing({name: 3, f"{0:020d}.log": 0})


def test_somebody_elses_directory_needs_no_meta_properties() -> None:
    files = CrashingFiles()
    files.make_directories("/data/holiday-24")
    files.write("/data/holiday-24/beach.jpg", b"mine")
    assert owned(files, "/data", 3, None, Random(1)).node_id == 3
