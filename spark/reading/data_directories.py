"""The data directories of one broker: which partitions they hold, and of which topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.cluster_metadata import read_topics
from headgate.spark.reading.log_reader import LogUnavailable, TopicDescription
from headgate.storage.directory.kafka_directory import CARRIED_METADATA, CLUSTER_METADATA, OWN_METADATA
from headgate.storage.disk import layout
from headgate.storage.errors import BadFile
from headgate.storage.files import Files

_OWN_TOPIC = OWN_METADATA.rpartition("-")[0]
_NO_TOPICS = (CLUSTER_METADATA, _OWN_TOPIC)
"""Metadata logs, which no broker names as topics."""


class DataDirectories:
    """The directories in `paths`. Each call looks at the disk again."""

    def __init__(self, disk: Files, paths: Sequence[str]) -> None:
        self._disk = disk
        self.paths = tuple(dict.fromkeys(str(PurePath(path)) for path in paths))
        self._known_ids: dict[str, bytes] = {}  # of the metadata log, since `topics`

    @property
    def is_headgates(self) -> bool:
        """Whether a broker of Headgate without ZooKeeper has written the directories."""
        names = OWN_METADATA, CARRIED_METADATA
        return any(self._disk.exists(f"{path}/{name}") for path in self.paths for name in names)

    def topics(self) -> dict[str, TopicDescription]:
        """The topics by name. Raises LogUnavailable.

        With a metadata log these are the topics in it, with all their partitions, also partitions that are in none of
        the directories. A directory of a deleted topic does not count.
        """
        numbers, topic_ids = defaultdict[str, set[int]](set), dict[str, bytes]()
        for path, partition in self._partitions():
            directory = f"{path}/{partition}"
            topic_id = self.topic_id(directory)
            if topic_id is None and layout.is_no_partition(self._list(directory)):
                continue  # the name of another program's directory looks like a partition
            numbers[partition.topic].add(partition.number)
            if topic_id is not None:
                topic_ids.setdefault(partition.topic, topic_id)
        known = read_topics(self._disk, self.paths)
        if known is None:
            return {
                name: TopicDescription(name, topic_ids.get(name), sorted(found))
                for name, found in sorted(numbers.items())
            }
        self._known_ids = {name: topic.topic_id for name, topic in known.items()}
        return {
            name: TopicDescription(name, topic.topic_id, sorted(topic.partitions))
            for name, topic in sorted(known.items())
        }

    def locate(self, partition: TopicPartition, topic_id: bytes | None = None) -> str:
        """The data directory with a partition, of this topic id if one is given. Raises LogUnavailable.

        A directory that never got a record does not count beside another one, as at the start of a broker.
        """
        topic_id = topic_id or self._known_ids.get(partition.topic)
        found = [path for path in self.paths if self._disk.exists(f"{path}/{partition}")]
        if topic_id is not None:
            others = [path for path in found if self.topic_id(f"{path}/{partition}") not in (None, topic_id)]
            if found and others == found:
                raise LogUnavailable(
                    f"{partition} in {' and '.join(others)} belongs to another topic of this name, which was deleted "
                    "and created again; plan again"
                )
            found = [path for path in found if path not in others]
        if len(found) > 1:
            used = [path for path in found if not layout.holds_nothing(self._list(f"{path}/{partition}"))]
            found = used or found[:1]
        if not found:
            raise LogUnavailable(
                f"none of {', '.join(self.paths)} has a directory {partition}; name all directories in log.dirs, of "
                "the broker that has the partition"
            )
        if len(found) > 1:
            raise LogUnavailable(
                f"{partition} is in {' and in '.join(found)}: no start of a broker can tell which one counts; name "
                "the directories of one broker, without the unwanted one"
            )
        return found[0]

    def topic_id(self, directory: str) -> bytes | None:
        """The topic id in a partition's directory; None without a readable one. Raises LogUnavailable."""
        try:
            with suppress(BadFile):  # cut by a crash: the topic is known by its name alone
                return layout.read_topic_id(self._disk, directory)
        except OSError as error:
            raise _unreadable(directory, error) from error
        return None

    def _partitions(self) -> Iterator[tuple[str, TopicPartition]]:
        """Each data directory with the partitions in it, by the names of their directories. Raises LogUnavailable."""
        clusters = dict[str, str]()
        for path in self.paths:
            names = self._list(path)
            keys = [key for name, size in names.items() if size < 0 and (key := layout.parse_partition(name))]
            self._note_cluster(path, has_partitions=bool(keys), clusters=clusters)
            for topic, number in keys:
                if topic not in _NO_TOPICS and not layout.is_deleted(f"{topic}-{number}"):
                    yield path, TopicPartition(topic, number)

    def _note_cluster(self, path: str, *, has_partitions: bool, clusters: dict[str, str]) -> None:
        """Raise LogUnavailable for no data directory, and for directories of different brokers."""
        try:
            meta = layout.read_meta(self._disk, path)
        except (BadFile, OSError):
            meta = None
        if meta is None:
            if not has_partitions:
                raise LogUnavailable(
                    f"{path} is no data directory: it has neither {layout.META_PROPERTIES} nor a partition; name "
                    "the directories in log.dirs of the broker"
                )
            return
        clusters[f"node {meta.node_id} of cluster {meta.cluster_id}"] = path
        if len(clusters) > 1:
            whose = " and ".join(f"{where} to {who}" for who, where in clusters.items())
            raise LogUnavailable(f"the directories belong to different brokers, {whose}; name those of one broker")

    def _list(self, path: str) -> Mapping[str, int]:
        try:
            return self._disk.list(path)
        except OSError as error:
            raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> LogUnavailable:
    return LogUnavailable(f"{path} cannot be read here: {error.strerror or error}; is it on this machine?")
