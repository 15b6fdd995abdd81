"""Opens the way to a topic: files where there are log directories, the wire otherwise or where a file cannot be opened.

On the driver a reader answers questions about topics and bounds; the broker answers them if there is one. In a task a
reader reads one range.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from headgate.protocol.security.client_security import ClientSecurity
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import (
    Bounds,
    FetchedBatches,
    IsolationLevel,
    LogUnavailable,
    OffsetOutOfRange,
    OffsetRange,
    TopicDescription,
    TopicReader,
)
from headgate.tools.client.client import PLAINTEXT

if TYPE_CHECKING:
    from headgate.spark.reading.wire_reader import WireReader

LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Origin:
    """Where the batches of topics are: a broker, log directories, or both. It can be pickled.

    `topic_ids`: the ids that the plan saw; a topic with another id now is not read. `wire_settings`: arguments of
    WireReader.
    """

    bootstrap: str | None = None
    log_directories: Sequence[str] = ()
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    wire_settings: Mapping[str, Any] = field(default_factory=dict)
    security: ClientSecurity = PLAINTEXT

    def open(self) -> TopicReader:
        """The reader of the driver: bounds from the broker if there is one, batches by the best way."""
        if not self.log_directories:
            return self._wire()
        from headgate.spark.reading.file_reader import FileReader

        if not self.bootstrap:
            return FileReader(self.log_directories)
        broker = self._wire()
        files = FileReader(self.log_directories, broker=broker)
        broker.may_come_back = files.is_held  # without a running broker the files are complete: no wait for the broker
        return files

    def open_in_task(self) -> TopicReader:
        """The reader of a task: by files, and by the wire where they cannot be read."""
        if not self.log_directories:
            return self._wire()
        from headgate.spark.reading.file_reader import FileReader

        files = FileReader(self.log_directories, topic_ids=self.topic_ids or None)
        return FallbackReader(files, self._wire) if self.bootstrap else files

    def _wire(self) -> WireReader:
        from headgate.spark.reading.wire_reader import WireReader

        if not self.bootstrap:
            raise LogUnavailable("neither a broker nor log directories are given: kafka.bootstrap.servers or logDirs")
        return WireReader(
            self.bootstrap, topic_ids=self.topic_ids or None, security=self.security, **self.wire_settings
        )


class FallbackReader:
    """A reader that goes on with another one where the first cannot read. Opens the second at its first use."""

    def __init__(self, first: TopicReader, open_second: Callable[[], TopicReader]) -> None:
        self._first, self._open_second = first, open_second
        self._second: TopicReader | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def topics(self) -> Mapping[str, TopicDescription]:
        return self._other().topics()

    def bounds(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel
    ) -> Mapping[TopicPartition, Bounds]:
        return self._other().bounds(partitions, isolation)

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
        return self._other().offsets_for_times(times)

    def read(self, wanted: OffsetRange, isolation: IsolationLevel) -> Iterator[FetchedBatches]:
        """The batches of a range; the second reader begins where the first one stopped.

        It also decides whether records are gone: the files may belong to a follower that lags behind.
        """
        position = wanted.start_offset
        try:
            for piece in self._first.read(wanted, isolation):
                position = max(position, piece.next_offset)
                yield piece
        except (LogUnavailable, OffsetOutOfRange) as error:
            LOG.info("%s is read from the broker from offset %d: %s", wanted.partition, position, error)
        else:
            return
        if position < wanted.end_offset:
            yield from self._other().read(wanted._replace(start_offset=position), isolation)

    def close(self) -> None:
        self._first.close()
        if self._second is not None:
            self._second.close()

    def _other(self) -> TopicReader:
        if self._second is None:
            self._second = self._open_second()
        return self._second
