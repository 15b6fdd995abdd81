"""The load of a shard: reads the segments of its log one after another, and replays them into an empty shard.

A thread reads bytes that are not in the page cache. The loop's thread replays, for a millisecond of each turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from headgate.gateway.coordinator.log_replay import LogReplay
from headgate.gateway.coordinator.shard import CoordinatorShard
from headgate.gateway.replication.write_batcher import WriteBatcher
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.purgatory import Purgatory
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.time_slices import TimeSlices
from headgate.protocol.errors import KafkaError
from headgate.protocol.steps import finish
from headgate.storage.log.log import Log
from headgate.storage.segment import legacy_messages
from headgate.storage.segment.file_slice import FileSlice, MessagesSlice

S = TypeVar("S", bound=CoordinatorShard)

CACHED_BYTES = 1 << 18
"""The size of one read on the loop, of a log in the page cache."""


class CoordinatorServices(NamedTuple):
    """The services that all coordinators of a broker share."""

    clock: Clock
    scheduler: Scheduler
    purgatory: Purgatory
    appends: WriteBatcher
    slices: TimeSlices


class ShardLoader(Generic[S]):
    """One pass through a log. At its end `loaded(replay, began_ms)` is called; `failed(error)` if a read fails."""

    def __init__(
        self,
        log: Log,
        replay: LogReplay[S],
        services: CoordinatorServices,
        buffer_bytes: int,
        loaded: Callable[[LogReplay[S], float], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._replay = replay
        self._services = services
        self._buffer_bytes = buffer_bytes
        self._loaded = loaded
        self._failed = failed
        self._began_ms = services.clock.monotonic_ms()
        self._segments = deque((segment, segment.size) for segment in log.segments if segment.size)
        self._slice: FileSlice | None = None
        self._position = 0

    def start(self) -> None:
        """Read and replay one piece after another, up to the end of the log."""
        if self._slice is None and not self._segments:
            clocks = self._replay.shard.start_clocks(self._services.clock.monotonic_ms())
            self._services.slices.add(clocks, lambda: self._loaded(self._replay, self._began_ms))
            return
        try:
            self._read()
        except (OSError, KafkaError) as error:
            self._has_read(error)

    def _read(self) -> None:
        if self._slice is None:
            segment, size = self._segments.popleft()
            self._slice, self._position = segment.slice(0, size), 0
            self._replay.forget_rest()
        piece, position, wanted = self._slice, self._position, self._replay.wanted()
        if isinstance(piece, MessagesSlice):
            convert = legacy_messages.batches_steps(piece, position, self._buffer_bytes)
            self._services.scheduler.reads(piece.disk).in_thread(lambda: finish(convert), self._has_converted)
            return
        left = piece.length - position
        data = piece.read_cached(position, min(left, max(CACHED_BYTES, wanted)))
        if data is None:
            length = max(self._buffer_bytes, wanted)
            self._services.scheduler.reads(piece.disk).in_thread(lambda: piece.read(position, length), self._has_read)
        else:
            self._has_read(bytes(data))

    def _has_converted(self, made: tuple[bytearray, int] | BaseException) -> None:
        if isinstance(made, BaseException):
            self._has_read(made)
            return
        data, end = made
        self._position = end - len(data)  # as if a read of so many bytes had ended there
        self._has_read(bytes(data))

    def _has_read(self, data: bytes | BaseException) -> None:
        if isinstance(data, BaseException) or not data:
            if self._slice is not None:
                self._slice.release()
            self._failed(data or OSError("a segment file is shorter than it was"))
            return
        assert self._slice is not None
        self._position += len(data)
        if self._position >= self._slice.length:
            self._slice.release()
            self._slice = None
        self._services.slices.add(self._replay.replay(data), self.start)
