"""Data directories of Apache Kafka: what is in them, read without a trace.

Kafka's layout is ours, but the topics are known elsewhere: by ZooKeeper, or by KRaft's metadata log, which a broker has
a copy of in `__cluster_metadata-0` (KIP-595, KIP-630):

    00000000000000000000.log                        batches of metadata records, and control batches
    00000000000000001234-0000000005.checkpoint      the same for everything before offset 1234, of epoch 5

So a directory with partitions and without `__headgate_metadata-0` is somebody else's.
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
from headgate.storage.segment.segment import LOG_SUFFIX

OWN_METADATA = "__headgate_metadata-0"
CLUSTER_METADATA = "__cluster_metadata"
TRANSACTION_STATE = "__transaction_state"
_CHECKPOINT = re.compile(r"([0-9]{20})-[0-9]{10}\.checkpoint")
_TEN_NAMES = 10


class Found(NamedTuple):
    """A partition's directory. `latest_epoch` is -1 and `topic_id` None where no file, or no sound one, says it."""

    path: str
    topic_id: bytes | None
    latest_epoch: int
    next_producer_id: int
    """Above all that its newest snapshot knows; 0 if it knows none."""


@dataclass
class Survey:
    """What several data directories of one Kafka broker hold. `cluster_metadata` is a directory, None without KRaft."""

    meta: Meta
    partitions: dict[TopicPartition, Found]
    cluster_metadata: str | None = None
    others: Sequence[str] = ()
    """Directories that are called like a partition's, and hold nothing of a log."""


def is_kafka_directory(files: Files, paths: Sequence[str]) -> bool:
    """Whether these directories, those that exist, hold partitions that no log of ours knows. Nothing is made."""
    if any(files.exists(f"{path}/{OWN_METADATA}") for path in paths):  # of 10,000 partitions a list would take long
        return False
    for path in paths:
        names = files.list(path) if files.exists(path) else {}
        if f"{CLUSTER_METADATA}-0" in names or any(_holds_log(files, path, key) for key in _named(names)):
            return True
    return False


def refuse(files: Files, paths: Sequence[str]) -> None:
    """Raises StorageError for data directories that are another program's; nothing in them is touched."""
    if is_kafka_directory(files, paths):
        raise StorageError(
            f"log.dirs={','.join(paths)} holds partitions but no {OWN_METADATA}, which knows their topics: if Apache "
            "Kafka wrote them, stop it and start with `headgate serve --adopt`; if that directory was lost, restore it "
            "from a copy; or set another log.dirs"
        )


def survey(files: Files, paths: Sequence[str], metadata_path: str | None = None) -> Survey:
    """Look through data directories; `metadata_path` is where Kafka's metadata log is, if not in one of them.

    Raises StorageError where they contradict each other, or a file that says whose they are is missing; OSError.
    """
    metas: dict[str, Meta] = {}
    found: dict[TopicPartition, Found] = {}
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
                raise StorageError(f"{path} holds partitions but no meta.properties, which says whose; bring it back")
            continue
        metas[path] = meta
        if f"{CLUSTER_METADATA}-0" in names:
            cluster_metadata = f"{path}/{CLUSTER_METADATA}-0"
        for key in partitions:
            if key in found:
                raise StorageError(f"{'-'.join(map(str, key))} is in {path} and in {found[key].path}; remove one")
            found[key] = _look(files, f"{path}/{layout.partition_name(*key)}")
    if metadata_path is not None and files.exists(f"{metadata_path}/{CLUSTER_METADATA}-0"):
        cluster_metadata = f"{metadata_path}/{CLUSTER_METADATA}-0"
    return Survey(_one(metas), found, cluster_metadata, others)


def _named(names: Mapping[str, int]) -> list[TopicPartition]:
    """The directories that are called like a partition's."""
    keys = (layout.parse_partition(name) for name, size in names.items() if size < 0 and not layout.is_deleted(name))
    return sorted(key for key in keys if key is not None and key[0] != CLUSTER_METADATA)


def _holds_log(files: Files, path: str, key: TopicPartition) -> bool:
    """Whether it is a partition's: `holiday-24` may be anybody's. Kafka leaves none without a file of a log."""
    return any(map(layout.is_of_log, files.list(f"{path}/{layout.partition_name(*key)}")))


def _one(metas: dict[str, Meta]) -> Meta:
    """The identity that all directories have. Raises StorageError."""
    if not metas:
        raise StorageError("there is no meta.properties, which says whose these directories are; bring it back")
    if len({(meta.cluster_id, meta.node_id) for meta in metas.values()}) > 1:
        whose = [f"{path} to node {meta.node_id} of cluster {meta.cluster_id}" for path, meta in metas.items()]
        raise StorageError(f"log.dirs belong to different brokers: {', '.join(whose)}; set those of one")
    return next(iter(metas.values()))


def _look(files: Files, path: str) -> Found:
    try:
        known = epochs.read_entries(files, path) or ()
    except BadFile:  # it is made again from the batches, when the log is opened
        known = ()
    latest_epoch = max((epoch for epoch, _ in known), default=-1)
    try:
        topic_id = layout.read_topic_id(files, path)
    except BadFile:  # cut by a crash: then the topic is known by its name alone
        topic_id = None
    return Found(path, topic_id, latest_epoch, _next_producer_id(files, path))


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
    """The values of all records in Kafka's metadata log, each once: the newest checkpoint, then what comes behind it.

    Raises BadFile at the first place that cannot be read; what came before holds. Raises OSError.
    """
    names = files.list(directory)
    checkpoints = sorted(name for name in names if _CHECKPOINT.fullmatch(name))
    offset = int(checkpoints[-1][:20]) if checkpoints else 0
    if checkpoints:
        yield from _values(files, f"{directory}/{checkpoints[-1]}", 0)
    bases = sorted(base for name in names if name.endswith(LOG_SUFFIX) and (base := base_of(name)) is not None)
    if bases and bases[0] > offset:
        raise BadFile(f"{directory} has nothing of the offsets from {offset} to {bases[0]}")
    for base, following in zip(bases, [*bases[1:], 1 << 62], strict=True):
        if following > offset:
            yield from _values(files, f"{directory}/{base:020d}{LOG_SUFFIX}", offset)


def transactional_values(files: Files, found: Survey) -> Iterator[bytes]:
    """The values of all records of `__transaction_state`, of which some may be outdated. Raises BadFile, OSError."""
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
        raise BadFile(f"{path} is cut in the batch at byte {position}")
    view = memoryview(file.read_at(header.size, position))
    if not batch.check_crc(view):
        raise BadFile(f"{path}: the checksum of the batch at byte {position} is wrong")
    return view


def named(partitions: Sequence[int]) -> str:
    """Numbers as a person reads them: 0-3, 7."""
    runs = [
        [number for _, number in run] for _, run in groupby(enumerate(sorted(partitions)), lambda at: at[1] - at[0])
    ]
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    left = len(texts) - _TEN_NAMES
    return ", ".join(texts[:_TEN_NAMES]) + (f" and {left} more" if left > 0 else "")
