"""The load of a shard: reads the segments of its log one after another, and replays them into an empty shard.

A thread reads bytes that are not in the page cache. The loop's thread replays, in slices: the shards of a broker one
after another, as far as their bytes are at hand.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from headgate.gateway.coordinator.log_replay import LogReplay
from headgate.gateway.replication.write_batcher import WriteBatcher
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tasks import Lock, Task, Tasks, Turn
from headgate.protocol.steps import finish
from headgate.storage.log.log import Log
from headgate.storage.segment import legacy_messages
from headgate.storage.segment.file_slice import FileSlice, MessagesSlice

CACHED_BYTES = 1 << 18
"""The size of one read on the loop, of a log in the page cache."""


class CoordinatorServices(NamedTuple):
    """The services that all coordinators of a broker share."""

    clock: Clock
    scheduler: Scheduler
    tasks: Tasks
    batcher: WriteBatcher
    loading: Lock
    """The shard that is being replayed holds it."""


def load(log: Log, replay: LogReplay[Any], services: CoordinatorServices, buffer_bytes: int) -> Task[None]:
    """Read and replay the log, then start the clocks of the shard. Raises OSError, KafkaError if a read fails."""
    turn = services.loading.turn()
    try:
        yield turn.acquire
        for segment, size in [(segment, segment.size) for segment in log.segments if segment.size]:
            piece = segment.slice(0, size)
            replay.forget_rest()
            try:
                yield from _load_piece(piece, replay, services, turn, buffer_bytes)
            finally:
                piece.release()
        yield from replay.shard.start_clocks(services.clock.monotonic_ms())
    finally:
        turn.release()


def _load_piece(
    piece: FileSlice, replay: LogReplay[Any], services: CoordinatorServices, turn: Turn, buffer_bytes: int
) -> Task[None]:
    in_thread, position = services.scheduler.reads(piece.disk).in_thread, 0
    while position < piece.length:
        wanted = replay.wanted()
        data = None
        if isinstance(piece, MessagesSlice):
            read: Any = partial(finish, legacy_messages.batches_steps(piece, position, buffer_bytes))
        else:
            data = piece.read_cached(position, min(piece.length - position, max(CACHED_BYTES, wanted)))
            read = partial(piece.read, position, max(buffer_bytes, wanted))
        if data is None:
            turn.release()  # other shards are loaded meanwhile
            data = yield partial(in_thread, read)
            yield turn.acquire
        if isinstance(data, tuple):  # converted batches, and the position behind them
            data, end = data
            position = end - len(data)
        if not data:
            raise OSError("a segment file is shorter than it was")
        position += len(data)
        yield from replay.replay(bytes(data))
