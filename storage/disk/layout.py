"""Names and small files of a data directory and of its partitions' directories, as in Apache Kafka.

    <log.dirs>/.lock  .kafka_cleanshutdown  meta.properties  *-checkpoint
    <log.dirs>/<topic>-<partition>/                     partition.metadata and the log
    <log.dirs>/<topic>-<partition>.<32 hex>-delete/     being deleted

`meta.properties` names the node and the cluster that own the directory. `partition.metadata` has the topic id, so that
a new topic of an old name is not mistaken for the old one.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from random import Random
from typing import NamedTuple

from headgate.storage.disk import checkpoint
from headgate.storage.errors import BadFile, StorageError, WrongDirectory
from headgate.storage.files import Files

META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
MAX_NAME = 255
_DELETED = re.compile(r".+\.[0-9a-f]{32}-delete")
# <base offset>.<kind>, and the suffixes of a segment's file that is being made, replaced or deleted, or is quarantined
_OF_SEGMENT = re.compile(
    r"([0-9]{20})\.(?:log|index|timeindex|txnindex|snapshot)(?:\.(?:[0-9]+|cleaned|swap|deleted|tmp|torn))*"
)
_FIRST_SEGMENT = f"{0:020d}.log"
# The last is a snapshot of the metadata log: <end offset>-<epoch>.checkpoint
_BESIDE_SEGMENTS = re.compile(
    r"(?:leader-epoch-checkpoint|partition\.metadata|[0-9]{20}-[0-9]{10}\.checkpoint)(?:\.tmp)?"
)
_PARTITION = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>[0-9]+)")


class Meta(NamedTuple):
    """The identity of a data directory. Kafka with ZooKeeper writes and reads `version` 0 only."""

    cluster_id: str
    node_id: int
    directory_id: str
    version: int = 1


def partition_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_partition(name: str) -> tuple[str, int] | None:
    """Topic and partition in a directory's name; None if there is none. Partitions of a topic share its string."""
    found = _PARTITION.fullmatch(name)
    return None if found is None else (sys.intern(found["topic"]), int(found["partition"]))


def base_of(name: str) -> int | None:
    """The offset in the name of a segment's or a snapshot's file, with any suffix; None for other names."""
    found = _OF_SEGMENT.fullmatch(name)
    return None if found is None else int(found[1])


def is_of_log(name: str) -> bool:
    """Whether a log gives this name to a file in a partition's directory; other programs own all other files."""
    return base_of(name) is not None or _BESIDE_SEGMENTS.fullmatch(name) is not None


def is_no_partition(names: Collection[str]) -> bool:
    """Whether a directory that holds these names is no partition's, though its own name may be one.

    An empty directory is a partition's: a crash leaves it so while the partition is being created.
    """
    return bool(names) and not any(map(is_of_log, names))


def holds_nothing(sizes: Mapping[str, int]) -> bool:
    """Whether nothing was ever written to the partition with these files: they are as its creation left them, or less.

    `sizes` as `Files.list` gives them.
    """
    return {name: size for name, size in sizes.items() if name != PARTITION_METADATA} in ({}, {_FIRST_SEGMENT: 0})


def deleted_name(topic: str, partition: int, random: Random) -> str:
    """The name of a partition's directory that is being deleted."""
    return _renamed(topic, partition, random, "delete")


def stray_name(topic: str, partition: int, random: Random) -> str:
    """The name of a directory that stays, but is no longer a partition's. Source: Kafka's `UnifiedLog`."""
    return _renamed(topic, partition, random, "stray")


def _renamed(topic: str, partition: int, random: Random, kind: str) -> str:
    """A name of its own for a partition's directory. Long topic names are cut, to fit into a file name."""
    suffix = f"-{partition}.{random.randbytes(16).hex()}-{kind}"
    return topic[: MAX_NAME - len(suffix)] + suffix


def is_deleted(name: str) -> bool:
    """Whether a directory is being deleted."""
    return _DELETED.fullmatch(name) is not None


def random_id(random: Random) -> str:
    """A new id in Kafka's form: 16 bytes as 22 characters, none of which a command line takes for an option."""
    while True:
        text = format_id(random.randbytes(16))
        if not text.startswith("-"):
            return text


def format_id(value: bytes) -> str:
    """16 bytes -> 22 characters (base64, for URLs, not padded)."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def parse_id(text: str) -> bytes:
    """22 characters -> 16 bytes; raises ValueError."""
    value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(value) != 16:
        raise ValueError(f"{text!r} is not an id of 16 bytes")
    return value


def read_meta(files: Files, directory: str) -> Meta | None:
    """The identity of a data directory; None for a new one. Raises BadFile."""
    path = f"{directory}/{META_PROPERTIES}"
    if not files.exists(path):
        return None
    values = _properties(files.read(path).decode(errors="replace"))
    node_id = values.get("node.id", values.get("broker.id", ""))
    if not node_id.isdigit() or not values.get("cluster.id"):
        raise BadFile(
            f"{path} names no node.id and cluster.id; bring it back, or write them into it as the cluster knows them"
        )
    version = 0 if values.get("version") == "0" else 1
    return Meta(values["cluster.id"], int(node_id), values.get("directory.id", ""), version)


def node_id(files: Files, paths: Iterable[str]) -> int | None:
    """The node id of the first data directory that has one."""
    for path in paths:
        with contextlib.suppress(OSError, BadFile):
            meta = read_meta(files, path)
            if meta is not None:
                return meta.node_id
    return None


def write_meta(files: Files, directory: str, meta: Meta) -> None:
    """Write `meta.properties` (version 1: KIP-631, KIP-858). Version 0 stays, so that its Kafka can come back."""
    name = "node.id" if meta.version else "broker.id"
    lines = (f"cluster.id={meta.cluster_id}", f"directory.id={meta.directory_id}", f"{name}={meta.node_id}")
    text = "\n".join(("#", *lines, f"version={meta.version}", ""))
    checkpoint.replace(files, f"{directory}/{META_PROPERTIES}", text.encode())


def identify(files: Files, directory: str, node_id: int, cluster_id: str | None, random: Random) -> Meta:
    """The identity of a data directory, or one for a new directory; nothing is written.

    Raises WrongDirectory for the directory of another node or cluster; StorageError if that is not known.
    """
    meta = read_meta(files, directory)
    if meta is None:
        called = [name for name, size in files.list(directory).items() if size < 0 and parse_partition(name)]
        orphan = next((name for name in called if not is_no_partition(files.list(f"{directory}/{name}"))), None)
        if orphan is not None:
            raise StorageError(
                f"{directory} holds {orphan} but no {META_PROPERTIES}, which says whose it is; bring that file back"
            )
        return Meta(cluster_id or random_id(random), node_id, random_id(random))
    if meta.node_id != node_id:
        raise WrongDirectory(
            f"{directory} belongs to node.id={meta.node_id}, not {node_id}; set that node.id, or another log.dirs"
        )
    if cluster_id not in (None, meta.cluster_id):
        raise WrongDirectory(
            f"{directory} belongs to cluster {meta.cluster_id}, not {cluster_id}; set another log.dirs"
        )
    return meta._replace(directory_id=meta.directory_id or random_id(random))  # Kafka before 3.7 gave none


def own(files: Files, directory: str, meta: Meta) -> None:
    """Write the identity of `identify` into a directory that lacks it, or lacks the directory's id. Raises OSError."""
    found = read_meta(files, directory)
    if found is None:
        write_meta(files, directory, meta)
    elif found != meta:
        with contextlib.suppress(OSError):  # without room, the next start gives the directory another id
            write_meta(files, directory, meta)


def check_same(files: Files, directory: str, meta: Meta) -> None:
    """Check that the directory still has this identity. Raises OSError: ENODEV for another directory.

    After a disk was unmounted, its mount point is a directory on another disk.
    """
    path = f"{directory}/{META_PROPERTIES}"
    try:
        files.size(path)  # its error says why the file cannot be read
        found = read_meta(files, directory)
    except (FileNotFoundError, BadFile):
        found = None
    if found is None or found._replace(directory_id=found.directory_id or meta.directory_id) != meta:
        raise OSError(errno.ENODEV, f"{path} is gone, or another one: is the right disk mounted?")


def read_topic_id(files: Files, directory: str) -> bytes | None:
    """The topic id in a partition's directory; None if there is no file (before Kafka 2.8). Raises BadFile."""
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        lines = files.read(path).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return None
    rows = dict(line.split(": ", 1) for line in lines if ": " in line)
    try:
        return parse_id(rows["topic_id"])
    except (KeyError, ValueError):
        raise BadFile(f"{path} names no topic id") from None


def write_topic_id(files: Files, directory: str, topic_id: bytes) -> None:
    """Write `partition.metadata`; it is on the disk after the log's first flush."""
    files.write(f"{directory}/{PARTITION_METADATA}", topic_metadata(topic_id))


def replace_topic_id(files: Files, directory: str, topic_id: bytes) -> None:
    """Replace `partition.metadata` in a directory that holds a log; it is on the disk when this returns."""
    checkpoint.replace(files, f"{directory}/{PARTITION_METADATA}", topic_metadata(topic_id))


def topic_metadata(topic_id: bytes) -> bytes:
    """The content of `partition.metadata`."""
    return f"version: 0\ntopic_id: {format_id(topic_id)}\n".encode()


def _properties(text: str) -> dict[str, str]:
    rows = (line.partition("=") for line in text.splitlines() if not line.startswith(("#", "!")))
    return {name.strip(): value.strip() for name, _, value in rows if name.strip()}
