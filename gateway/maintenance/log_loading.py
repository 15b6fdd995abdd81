"""Logs come online one by one: the broker listens at once, and opens the logs of its directories meanwhile.

A small store that was left cleanly, or with little to be scanned, is open before the first client can connect. Threads
open a larger one in slices (`Scheduler.in_slices`), a few partitions at a time: internal topics first, then logs with
the least to be scanned. Until its turn has come, a partition has no leader, and clients come again. The progress stands
in the log every few seconds, and in the metrics.

Which logs are open is a fact of `storage.directory.log_states`, and what clients may do with them meanwhile is said in
`gateway.replication.partition_states`; here are the order, the threads and the retries.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from headgate.gateway.metadata.image import INTERNAL_TOPICS
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.metrics import Metrics
from headgate.gateway.runtime.scheduler import Scheduler, StoppedError
from headgate.protocol.steps import Steps
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.directory.log_opening import ConfigOf, LogOpening
from headgate.storage.disk.checkpoint import TopicPartition
from headgate.storage.errors import StorageError

logger = logging.getLogger("headgate.opening")

# A store with no more than this is open before the broker listens: that takes less than a second in any case.
FEW_PARTITIONS = 256
FEW_BYTES = 4 << 20
FEW_MS = 1_000.0
# So much a thread opens in one go: to come back to the loop costs as much as to open one idle partition.
BATCH_PARTITIONS = 32
BATCH_BYTES = 4 << 20
TELL_MS = 5_000.0
# A log that the system refused, for a file or a descriptor, is tried again: soon, and then ever more rarely.
RETRY_MS, MOST_RETRY_MS = 1_000.0, 60_000.0
# To open an idle partition takes as long as to scan so much of another one.
PARTITION_COST_BYTES = 128 << 10


@dataclass
class Progress:
    """How far the opening of all logs is. Bytes are those that have to be scanned, at most."""

    partitions: int = 0
    opened: int = 0
    closed: int = 0
    """The partitions of `opened` that stay closed, as they are damaged."""
    bytes: int = 0
    bytes_ended: int = 0
    """The bytes of partitions that are opened; of others some bytes are scanned as well."""
    began_ms: float = 0.0
    running: list[LogOpening] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Partitions that are not open yet."""
        return self.partitions - self.opened

    @property
    def bytes_scanned(self) -> int:
        """Bytes that need not be scanned any more."""
        return min(self.bytes, self.bytes_ended + sum(opening.found.bytes_scanned for opening in self.running))

    def seconds_left(self, now_ms: float) -> float:
        """How long the rest will take at the present pace; 0 if there is no rest, or nothing to go by."""
        done = self.bytes_scanned + self.opened * PARTITION_COST_BYTES
        whole = self.bytes + self.partitions * PARTITION_COST_BYTES
        return (whole - done) / done * (now_ms - self.began_ms) / 1000.0 if done else 0.0


class _Directory:
    """The logs that are to be opened in one log directory, and the number of threads that open them."""

    def __init__(self, store: LogDirectory) -> None:
        self.store = store
        self.queue: deque[TopicPartition] = deque()
        self.work: dict[TopicPartition, int] = {}
        self.threads = 0


class LogLoader:
    """Opens all logs: `open_few` a small store before there is a loop, `start` the rest."""

    def __init__(
        self,
        stores: LogManager,
        config_of: ConfigOf,
        clock: Clock,
        scheduler: Scheduler,
        metrics: Metrics,
        threads: int = 1,
    ) -> None:
        """`config_of(topic)` gives the settings of a topic. Each directory has so many `threads`."""
        self.progress = Progress()
        self._opened: Callable[[Collection[TopicPartition]], None] = lambda _: None
        self._is_done = False
        self._retries: dict[TopicPartition, tuple[float, float]] = {}  # when, and the delay behind that
        self._when_done: list[Callable[[], None]] = []
        self._stores = stores
        self._config_of = config_of
        self._clock = clock
        self._threads = threads
        self._directories = [_Directory(store) for store in stores]
        self._scheduler = scheduler
        self._measure(metrics)

    def _measure(self, metrics: Metrics) -> None:
        progress = self.progress
        metrics.gauge("opening.partitions", lambda: progress.partitions)
        metrics.gauge("opening.partitions.left", lambda: progress.left)
        metrics.gauge("opening.bytes", lambda: progress.bytes)
        metrics.gauge("opening.bytes.left", lambda: progress.bytes - progress.bytes_scanned)
        metrics.gauge("opening.seconds.left", lambda: progress.seconds_left(self._clock.monotonic_ms()))

    # At once

    def open_few(self) -> None:
        """Open a small store as far as that takes no time; `start` opens the rest."""
        if len(self._stores.unopened) > FEW_PARTITIONS:
            return
        until_ms, left = self._clock.monotonic_ms() + FEW_MS, FEW_BYTES
        for directory in self._directories:
            store, keys = directory.store, list(directory.store.unopened)
            work = {key: _work(store, key) for key in keys}
            for key in in_order(keys, work):
                left -= work[key]
                if left < 0 or self._clock.monotonic_ms() > until_ms:
                    break
                store.open_now(key, self._config_of(key[0]), self._clock.now_ms())

    # By threads

    def serve(self, config_of: ConfigOf, opened: Callable[[Collection[TopicPartition]], None]) -> None:
        """There is a broker now, which knows the present settings of topics.

        `opened(keys)` is called with partitions whose logs are open, or stay closed.
        """
        self._config_of, self._opened = config_of, opened

    def start(self) -> None:
        """Open the rest. The scheduler has to be running."""
        progress, scheduler = self.progress, self._scheduler
        progress.partitions, progress.began_ms = len(self._stores.unopened), self._clock.monotonic_ms()
        self._retry_later()
        if not progress.partitions:
            self._end()
            return
        logger.info("opening %d partitions while the broker serves; clients of theirs come again", progress.partitions)
        scheduler.call_after(TELL_MS, self._tell)
        for directory in self._directories:
            keys = list(directory.store.unopened)
            directory.queue.extend(key for key in keys if key[0] in INTERNAL_TOPICS)
            others = [key for key in keys if key[0] not in INTERNAL_TOPICS]
            directory.threads += 1
            scheduler.in_slices(_survey(directory.store, keys), partial(self._surveyed, directory, others))
            self._go_on(directory)

    def _surveyed(
        self, directory: _Directory, others: Sequence[TopicPartition], found: dict[TopicPartition, int] | BaseException
    ) -> None:
        directory.threads -= 1
        if isinstance(found, StoppedError):
            return
        if isinstance(found, BaseException):
            logger.error("%s cannot be looked through: %r", directory.store.directory, found)
            found = {}
        directory.work = found
        self.progress.bytes += sum(found.values())
        directory.queue.extend(in_order(others, found))
        self._go_on(directory)

    def _go_on(self, directory: _Directory) -> None:
        while directory.threads < self._threads and directory.queue:
            batch = self._next_batch(directory)
            if batch:
                self._begin(directory, batch)
        if not (self.progress.left or self._is_done):
            self._tell_all()

    def _next_batch(self, directory: _Directory) -> list[LogOpening]:
        """The next few logs, or one that is large. Partitions that were deleted meanwhile are passed over."""
        batch: list[LogOpening] = []
        size, now_ms = 0, self._clock.now_ms()
        while directory.queue and len(batch) < BATCH_PARTITIONS and size < BATCH_BYTES:
            key = directory.queue.popleft()
            if key in directory.store.unopened:
                size += directory.work.get(key, 0)
                config = self._config_of(key[0])
                batch.append(directory.store.begin_opening(key, config, now_ms))
            else:
                self._count(directory, key)
        return batch

    def _begin(self, directory: _Directory, batch: list[LogOpening]) -> None:
        directory.threads += 1
        self.progress.running.extend(batch)
        self._scheduler.in_slices(_steps(batch), partial(self._ended, directory, batch))

    def _ended(self, directory: _Directory, batch: list[LogOpening], result: object) -> None:
        directory.threads -= 1
        keys = []
        for opening in batch:
            self.progress.running.remove(opening)
            key = opening.found.topic, opening.found.index
            is_fault = isinstance(result, BaseException) and not isinstance(result, StoppedError)
            if is_fault and opening.log is None and opening.error is None:
                opening.error = StorageError(f"{opening.found} cannot be opened: {result!r}")
                logger.error("partition %s stays closed: %r", opening.found, result)
            directory.store.end_opening(opening)
            if key not in directory.store.unopened:
                keys.append(key)
                self._count(directory, key)
            if key in directory.store.logs:
                self._retries.pop(key, None)
        if isinstance(result, StoppedError):
            return
        self._opened(keys)
        self._go_on(directory)

    def _count(self, directory: _Directory, key: TopicPartition) -> None:
        if key in self._retries:
            return
        self.progress.opened += 1
        self.progress.closed += key in directory.store.failed
        self.progress.bytes_ended += directory.work.get(key, 0)

    # Trying again

    def _retry_later(self) -> None:
        self._scheduler.call_after(RETRY_MS, self._retry)

    def _retry(self) -> None:
        """Have threads try again the logs that the system had refused and whose time has come."""
        self._retry_later()  # before anything can go wrong with one of them
        now_ms = self._clock.monotonic_ms()
        for directory in self._directories:
            for key in directory.store.refused:
                due_ms, delay_ms = self._retries.get(key, (now_ms, RETRY_MS))
                if due_ms <= now_ms:
                    self._retries[key] = now_ms + delay_ms, min(2 * delay_ms, MOST_RETRY_MS)
                    directory.store.allow_retry(key)
                    directory.queue.append(key)
            self._go_on(directory)

    # Progress

    def _tell(self) -> None:
        progress = self.progress
        if not progress.left:
            return
        logger.info(
            "%d of %d partitions are open, %.0f of %.0f MB are scanned; about %.0f s are left",
            progress.opened, progress.partitions, progress.bytes_scanned / 1e6, progress.bytes / 1e6,
            progress.seconds_left(self._clock.monotonic_ms()),
        )  # fmt: skip
        self._scheduler.call_after(TELL_MS, self._tell)

    def _tell_all(self) -> None:
        progress = self.progress
        took_s = (self._clock.monotonic_ms() - progress.began_ms) / 1000.0
        damaged = f"; {progress.closed} of them stay closed, for reasons given above" if progress.closed else ""
        logger.info("all %d partitions are open after %.1f s%s", progress.partitions, took_s, damaged)
        self._end()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Have `callback()` called once everything is open; now, if it is."""
        if self._is_done:
            callback()
        else:
            self._when_done.append(callback)

    def _end(self) -> None:
        self._is_done = True
        for directory in self._directories:
            directory.work = {}
        for callback in self._when_done:
            callback()


def in_order(keys: Collection[TopicPartition], work: dict[TopicPartition, int]) -> list[TopicPartition]:
    """Internal topics first, which clients of groups wait for; then logs that are open soonest. Pure."""
    return sorted(keys, key=lambda key: (key[0] not in INTERNAL_TOPICS, work.get(key, 0), key))


def _work(store: LogDirectory, key: TopicPartition) -> int:
    try:
        return store.bytes_to_scan(key)
    except OSError:  # the opening says what is wrong with the log
        return 0


def _survey(store: LogDirectory, keys: Collection[TopicPartition]) -> Steps[dict[TopicPartition, int]]:
    """How much of each log is to be scanned. For a thread, as every directory is listed."""
    work = {}
    for key in keys:
        work[key] = _work(store, key)
        yield
    return work


def _steps(batch: Sequence[LogOpening]) -> Steps[None]:
    for opening in batch:
        yield from opening.steps()
        yield
