"""Data directories of Apache Kafka, read without changes.

The layout is the same, but other metadata know the topics: ZooKeeper, or the KRaft metadata log, of which each broker
has a copy in `__cluster_metadata-0` (KIP-595, KIP-630):

    00000000000000000000.log                        batches of metadata records, and control batches
    00000000000000001234-0000000005.checkpoint      a snapshot of everything before offset 1234, epoch 5

So a directory with partitions but without `__headgate_metadata-0` belongs to another program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import batch
from headgate.storage.disk import layout
from headgate.storage.disk.checkpoint import TopicPartition
from headgate.storage.disk.layout import Meta, base_of
from headgate.storage.errors import BadFile, StorageError
from headgate.storage.files import File, Files
from headgate.storage.log import epochs, snapshots
from headgate.storage.log.producers import SNAPSHOT_SUFFIX, Producers
from headgate.storage.segment.segment_file import LOG_SUFFIX

OWN_METADATA = "__headgate_metadata-0"
CARRIED_METADATA = f"{OWN_METADATA}.in-zookeeper"
"""Our metadata log after its transfer to ZooKeeper: kept, but no longer read."""
CLUSTER_METADATA = "__cluster_metadata"
TRANSACTION_STATE = "__transaction_state"
_CHECKPOINT = re.compile(r"([0-9]{20})-[0-9]{10}\.checkpoint")
_TEN_NAMES = 10


class KafkaPartition(NamedTuple):
    """A partition's directory. `latest_epoch` is -1 and `topic_id` None if the file is missing or damaged."""

    path: str
    topic_id: bytes | None
    latest_epoch: int
    next_producer_id: int
    """One above the highest producer id in the newest producer snapshot; 0 if there is none."""


@dataclass
class Survey:
    """The content of all data directories of one Kafka broker.

    `cluster_metadata` is the directory of the KRaft metadata log, None without KRaft.
    """

    meta: Meta
    partitions: dict[TopicPartition, KafkaPartition]
    cluster_metadata: str | None = None
    others: Sequence[str] = ()
    """Directories with a partition's name but without files of a log."""


def is_kafka_directory(files: Files, paths: Sequence[str]) -> bool:
    """Whether these directories hold partitions but no metadata log of ours. Missing directories are not created."""
    if any(files.exists(f"{path}/{OWN_METADATA}") for path in paths):  # faster than a list of 10,000 partitions
        return False
    for path in paths:
        names = files.list(path) if files.exists(path) else {}
        if f"{CLUSTER_METADATA}-0" in names or any(_holds_log(files, path, key) for key in _named(names)):
            return True
    return False


def refuse(files: Files, paths: Sequence[str]) -> None:
    """Raises StorageError for data directories of another program; they stay unchanged."""
    check_not_carried(files, paths)
    if is_kafka_directory(files, paths):
        raise StorageError(
            f"log.dirs={','.join(paths)} holds partitions but no {OWN_METADATA}, which knows their topics: if ZooKeeper"
            " knows them, set zookeeper.connect; if Apache Kafka wrote them, stop Kafka and start with `headgate"
            f" serve --adopt`; if {OWN_METADATA} was lost, restore it from a copy; or set another log.dirs"
        )


def check_not_carried(files: Files, paths: Sequence[str]) -> None:
    """Raises StorageError for directories of ours whose metadata are in ZooKeeper."""
    for path in paths:
        if files.exists(f"{path}/{CARRIED_METADATA}") and not files.exists(f"{path}/{OWN_METADATA}"):
            raise StorageError(
                f"the metadata of {path} are in ZooKeeper since `headgate metadata to-zookeeper`: set"
                " zookeeper.connect, or bring them back with `headgate metadata to-embedded`; if ZooKeeper has lost"
                f" them, move {CARRIED_METADATA}, which is older, out of {path}, and start with `headgate serve"
                " --adopt`"
            )


def survey(files: Files, paths: Sequence[str], metadata_path: str | None = None) -> Survey:
    """Survey data directories. `metadata_path` is the directory with Kafka's metadata log, if not one of them.

    Raises StorageError if directories contradict each other, or if `meta.properties` is missing; OSError.
    """
    metas: dict[str, Meta] = {}
    found: dict[TopicPartition, KafkaPartition] = {}
    others: list[str] = []
    cluster_metadata = None
    for path in paths:
        names = files.list(path)
        meta = layout.read_meta(files, path)
        partitions = []
        for key in _named(names):
            if _holds_log(files, path, key):
                partitions.append(key)
            else:
                others.append(f"{path}/{layout.partition_name(*key)}")
        if meta is None:
            if partitions:
                raise StorageError(
                    f"{path} holds partitions but no meta.properties with their cluster; restore that file"
                )
            continue
        metas[path] = meta
        if f"{CLUSTER_METADATA}-0" in names:
            cluster_metadata = f"{path}/{CLUSTER_METADATA}-0"
        for key in partitions:
            if key in found:
                raise StorageError(f"{'-'.join(map(str, key))} is in {path} and in {found[key].path}; remove one")
            found[key] = _read_partition(files, f"{path}/{layout.partition_name(*key)}")
    if metadata_path is not None and files.exists(f"{metadata_path}/{CLUSTER_METADATA}-0"):
        cluster_metadata = f"{metadata_path}/{CLUSTER_METADATA}-0"
    return Survey(_one(metas), found, cluster_metadata, others)


def _named(names: Mapping[str, int]) -> list[TopicPartition]:
    """The partitions that have a directory of their name."""
    keys = (layout.parse_partition(name) for name, size in names.items() if size < 0 and not layout.is_deleted(name))
    return sorted(key for key in keys if key is not None and key[0] != CLUSTER_METADATA)


def _holds_log(files: Files, path: str, key: TopicPartition) -> bool:
    """Whether a directory holds a log: `holiday-24` may be of any program. Kafka's partitions always have log files."""
    return any(map(layout.is_of_log, files.list(f"{path}/{layout.partition_name(*key)}")))


def _one(metas: dict[str, Meta]) -> Meta:
    """The common identity of all directories. Raises StorageError."""
    if not metas:
        raise StorageError("there is no meta.properties with the cluster of these directories; restore that file")
    if len({(meta.cluster_id, meta.node_id) for meta in metas.values()}) > 1:
        whose = [f"{path} to node {meta.node_id} of cluster {meta.cluster_id}" for path, meta in metas.items()]
        raise StorageError(
            f"log.dirs belong to different brokers: {', '.join(whose)}; set the directories of one broker"
        )
    return next(iter(metas.values()))


def _read_partition(files: Files, path: str) -> KafkaPartition:
    try:
        known = epochs.read_entries(files, path) or ()
    except BadFile:  # the opening of the log rebuilds the checkpoint from the batches
        known = ()
    latest_epoch = max((epoch for epoch, _ in known), default=-1)
    try:
        topic_id = layout.read_topic_id(files, path)
    except BadFile:  # cut by a crash: the topic is known by its name alone
        topic_id = None
    return KafkaPartition(path, topic_id, latest_epoch, _next_producer_id(files, path))


def _next_producer_id(files: Files, path: str) -> int:
    newest = max(snapshots.offsets(files.list(path)), default=None)
    if newest is None:
        return 0
    try:
        producers = Producers.from_snapshot(files.read(f"{path}/{newest:020d}{SNAPSHOT_SUFFIX}"))
    except BadFile:
        return 0
    return max(producers.by_id, default=-1) + 1


# ------------------------------------------------------------------------------------------- the cluster's metadata log


def metadata_values(files: Files, directory: str) -> Iterator[bytes]:
    """The values of all records in Kafka's metadata log, each once: the newest checkpoint, then all later records.

    Raises BadFile at the first unreadable place; all values before are valid. Raises OSError.
    """
    names = files.list(directory)
    checkpoints = sorted(name for name in names if _CHECKPOINT.fullmatch(name))
    offset = int(checkpoints[-1][:20]) if checkpoints else 0
    if checkpoints:
        yield from _values(files, f"{directory}/{checkpoints[-1]}", 0)
    bases = sorted(base for name in names if name.endswith(LOG_SUFFIX) and (base := base_of(name)) is not None)
    if bases and bases[0] > offset:
        raise BadFile(f"{directory} lacks the offsets from {offset} to {bases[0]}")
    for base, following in zip(bases, [*bases[1:], 1 << 62], strict=True):
        if following > offset:
            yield from _values(files, f"{directory}/{base:020d}{LOG_SUFFIX}", offset)


def transactional_values(files: Files, found: Survey) -> Iterator[bytes]:
    """The values of all records of `__transaction_state`, outdated ones too. Raises BadFile, OSError."""
    for (topic, _), partition in found.partitions.items():
        if topic == TRANSACTION_STATE:
            for name in sorted(files.list(partition.path)):
                if name.endswith(LOG_SUFFIX) and base_of(name) is not None:
                    yield from _values(files, f"{partition.path}/{name}", 0)


def _values(files: Files, path: str, first_offset: int) -> Iterator[bytes]:
    file = files.open(path)
    try:
        position, size = 0, file.size()
        while position < size:
            view = _batch(file, path, position, size)
            position += len(view)
            header = batch.read_header(view)
            if header.is_control or header.last_offset < first_offset:
                continue
            for record in batch.iterate(view):
                if record.offset >= first_offset and record.value is not None:
                    yield record.value
    except KafkaError as error:
        raise BadFile(f"{path}, byte {position}: {error.message}") from None
    finally:
        file.release()


def _batch(file: File, path: str, position: int, size: int) -> memoryview:
    header = batch.read_header(file.read_at(batch.HEADER_SIZE, position))
    if header.size > size - position:
        raise BadFile(f"{path} ends in the middle of the batch at byte {position}")
    view = memoryview(file.read_at(header.size, position))
    if not batch.check_crc(view):
        raise BadFile(f"{path}: the checksum of the batch at byte {position} is wrong")
    return view


def named(partitions: Sequence[int]) -> str:
    """Partition numbers as text for people: 0-3, 7."""
    runs = [
        [number for _, number in run] for _, run in groupby(enumerate(sorted(partitions)), lambda at: at[1] - at[0])
    ]
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    left = len(texts) - _TEN_NAMES
    return ", ".join(texts[:_TEN_NAMES]) + (f" and {left} more" if left > 0 else "")
