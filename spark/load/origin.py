"""The origin of a load's records: directories of a broker, or a broker; each task opens it for itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from headgate.protocol.security.client_security import ClientSecurity
from headgate.spark.reading import opening
from headgate.spark.reading.log_reader import LogUnavailable, TopicReader
from headgate.storage.files import Files
from headgate.tools.client.client import PLAINTEXT, Client, ClientError
from headgate.tools.log.data_directory import DataDirectory
from headgate.tools.topics import describe_configs

_CLEANUP_POLICY = "cleanup.policy"


class LogOrigin(Protocol):
    """A value that the driver and each task open for themselves."""

    def open(self) -> TopicReader:
        """The reader of the driver; close it. Raises LogUnavailable."""

    def open_in_task(self, topic_ids: Mapping[str, bytes]) -> TopicReader:
        """The reader of a task; close it. `topic_ids`: topics with other ids are not read. Raises LogUnavailable."""

    def compacted(self, topics: Iterable[str]) -> dict[str, bool]:
        """For each topic whether it is compacted. Raises LogUnavailable."""


class LoadOrigin(NamedTuple):
    """Directories of a broker, or a broker.

    With both, bounds come from the broker, and batches from the files where a task can open them.
    """

    bootstrap: str | None = None
    log_dirs: tuple[str, ...] = ()
    security: ClientSecurity = PLAINTEXT

    def open(self) -> TopicReader:
        return opening.Origin(self.bootstrap, self.log_dirs, security=self.security).open()

    def open_in_task(self, topic_ids: Mapping[str, bytes]) -> TopicReader:
        return opening.Origin(self.bootstrap, self.log_dirs, topic_ids, security=self.security).open_in_task()

    def compacted(self, topics: Iterable[str]) -> dict[str, bool]:
        """For each topic whether it is compacted: by its settings, or by the cleaner's checkpoint beside the files."""
        names = list(topics)
        if self.bootstrap is not None:
            try:
                return self._policies(names)
            except ClientError as error:
                if not self.log_dirs:
                    raise LogUnavailable(str(error)) from None
        cleaned = {
            topic for directory in self.log_dirs for topic, _ in DataDirectory.read(Files(), directory).cleaner_offsets
        }
        return {name: name in cleaned for name in names}

    def _policies(self, names: list[str]) -> dict[str, bool]:
        """Raises ClientError."""
        assert self.bootstrap is not None
        with Client(self.bootstrap, security=self.security) as client:
            found = describe_configs(client, names, [_CLEANUP_POLICY])
        values = {name: [config.value or "" for config in entries] for name, entries in found.items()}
        return {name: any("compact" in value for value in values.get(name, ())) for name in names}
