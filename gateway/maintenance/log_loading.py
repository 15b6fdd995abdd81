"""Log loading: the broker listens at once, and opens the logs of its directories meanwhile, one by one.

A few logs with little or nothing to scan are open before the first client can connect. Threads open more logs in slices
(`Scheduler.in_slices`), a few partitions at a time: internal topics first, then the logs with the least to scan. Until
its log is open, a partition has no leader, and clients retry. The progress is logged every few seconds, and is in the
metrics.

`storage.directory.log_states` has the state of each log, `gateway.replication.partition_states` has what clients may do
meanwhile; this module has the order, the threads and the retries.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from headgate.gateway.metadata.image import COORDINATOR_TOPICS
from headgate.gateway.runtime.backoff import Backoff
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.metrics import Metrics
from headgate.gateway.runtime.scheduler import Scheduler, StoppedError
from headgate.gateway.runtime.tasks import Task, run
from headgate.protocol.steps import Steps
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.directory.log_opening import ConfigOf, LogOpening
from headgate.storage.disk.checkpoint import TopicPartition
from headgate.storage.errors import StorageError

logger = logging.getLogger("headgate.opening")

# Within these limits logs are opened before the broker listens: that takes less than a second in any case.
FEW_PARTITIONS = 256
FEW_BYTES = 4 << 20
FEW_MS = 1_000.0
# The batch of one thread: a return to the loop costs as much as the opening of one idle partition.
BATCH_PARTITIONS = 32
BATCH_BYTES = 4 << 20
PROGRESS_LOG_MS = 5_000.0
# The wait before a log that failed with an error of the system is tried again, doubled up to the maximum.
RETRY_MS, MAX_RETRY_MS = 1_000.0, 60_000.0
# The opening of an idle partition takes as long as a scan of this many bytes.
PARTITION_COST_BYTES = 128 << 10


@dataclass
class LoadingProgress:
    """The progress of log loading. Bytes are upper bounds of the bytes to scan."""

    partitions: int = 0
    opened: int = 0
    closed: int = 0
    """The number of partitions among `opened` that could not be opened."""
    bytes: int = 0
    bytes_ended: int = 0
    """The bytes of the partitions among `opened`."""
    began_ms: float = 0.0
    running: list[LogOpening] = field(default_factory=list)

    @property
    def left(self) -> int:
        """The number of partitions that are not yet open."""
        return self.partitions - self.opened

    @property
    def bytes_scanned(self) -> int:
        """The bytes that need no more scanning."""
        return min(self.bytes, self.bytes_ended + sum(opening.recovery.bytes_scanned for opening in self.running))

    def seconds_left(self, now_ms: float) -> float:
        """The estimated time for the rest at the present pace, in seconds; 0 before there is any progress."""
        done = self.bytes_scanned + self.opened * PARTITION_COST_BYTES
        total = self.bytes + self.partitions * PARTITION_COST_BYTES
        return (total - done) / done * (now_ms - self.began_ms) / 1000.0 if done else 0.0


class _Directory:
    """The logs to open in one log directory, their bytes to scan, and the number of threads that work on them."""

    def __init__(self, log_directory: LogDirectory) -> None:
        self.log_directory = log_directory
        self.queue: deque[TopicPartition] = deque()
        self.work: dict[TopicPartition, int] = {}
        self.threads = 0


class LogLoader:
    """Opens all logs: `open_few` opens a small number before there is a loop, `start` opens the rest."""

    def __init__(
        self,
        log_manager: LogManager,
        config_of: ConfigOf,
        clock: Clock,
        scheduler: Scheduler,
        metrics: Metrics,
        threads: int = 1,
    ) -> None:
        """`config_of(topic)` returns the settings of a topic. `threads` is the number for each directory."""
        self.progress = LoadingProgress()
        self._opened: Callable[[Collection[TopicPartition]], None] = lambda _: None
        self._is_done = False
        self._retries: dict[TopicPartition, Backoff] = {}
        self._when_done: list[Callable[[], None]] = []
        self._log_manager = log_manager
        self._config_of = config_of
        self._clock = clock
        self._threads = threads
        self._directories = [_Directory(log_directory) for log_directory in log_manager]
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
        """Open the logs if they are few, as far as the limits allow; `start` opens the rest."""
        if len(self._log_manager.unopened) > FEW_PARTITIONS:
            return
        until_ms, left = self._clock.monotonic_ms() + FEW_MS, FEW_BYTES
        for directory in self._directories:
            log_directory, keys = directory.log_directory, list(directory.log_directory.unopened)
            work = {key: _work(log_directory, key) for key in keys}
            for key in in_order(keys, work):
                left -= work[key]
                if left < 0 or self._clock.monotonic_ms() > until_ms:
                    break
                log_directory.open_now(key, self._config_of(key[0]), self._clock.now_ms())

    # By threads

    def serve(self, config_of: ConfigOf, opened: Callable[[Collection[TopicPartition]], None]) -> None:
        """Use the present settings of topics from now on, as the broker knows them.

        `opened(keys)` is called with partitions whose logs are open, or could not be opened.
        """
        self._config_of, self._opened = config_of, opened

    def start(self) -> None:
        """Open the rest. The scheduler has to be running."""
        progress = self.progress
        progress.partitions, progress.began_ms = len(self._log_manager.unopened), self._clock.monotonic_ms()
        self._retry_later()
        if not progress.partitions:
            self._end()
            return
        logger.info(
            "opening %d partitions while the broker serves; their clients retry until then", progress.partitions
        )
        self._scheduler.call_after(PROGRESS_LOG_MS, self._log_progress)
        for directory in self._directories:
            keys = list(directory.log_directory.unopened)
            directory.queue.extend(key for key in keys if key[0] in COORDINATOR_TOPICS)
            run(self._queue_others(directory, keys))
            self._open_queued(directory)

    def _queue_others(self, directory: _Directory, keys: Sequence[TopicPartition]) -> Task[None]:
        """Have a thread find out how much each log has to scan; queue the logs that are not of internal topics."""
        directory.threads += 1
        try:
            directory.work = yield partial(self._scheduler.in_slices, _survey(directory.log_directory, keys))
        except StoppedError:
            return
        except Exception as error:  # noqa: BLE001  the order is only a matter of speed
            logger.error("cannot survey the logs of %s: %r", directory.log_directory.directory, error)
        directory.threads -= 1
        self.progress.bytes += sum(directory.work.values())
        directory.queue.extend(in_order([key for key in keys if key[0] not in COORDINATOR_TOPICS], directory.work))
        self._open_queued(directory)

    def _open_queued(self, directory: _Directory) -> None:
        """Open the queued logs of a directory, by as many threads as are free."""
        while directory.threads < self._threads and directory.queue:
            run(self._open_batches(directory))
        if not (self.progress.left or self._is_done):
            self._log_end()

    def _open_batches(self, directory: _Directory) -> Task[None]:
        """Have one thread open batches of logs, until no log is queued."""
        directory.threads += 1
        try:
            while batch := self._next_batch(directory):
                self.progress.running.extend(batch)
                failure = None
                try:
                    yield partial(self._scheduler.in_slices, _steps(batch))
                except Exception as error:  # noqa: BLE001  the partition stays closed
                    failure = error
                keys = self._end_batch(directory, batch, failure)
                if isinstance(failure, StoppedError):
                    return
                self._opened(keys)
        finally:
            directory.threads -= 1
        self._open_queued(directory)

    def _next_batch(self, directory: _Directory) -> list[LogOpening]:
        """The next few logs, or a large one. Partitions that were deleted meanwhile are skipped."""
        batch: list[LogOpening] = []
        size, now_ms = 0, self._clock.now_ms()
        while directory.queue and len(batch) < BATCH_PARTITIONS and size < BATCH_BYTES:
            key = directory.queue.popleft()
            if key in directory.log_directory.unopened:
                size += directory.work.get(key, 0)
                config = self._config_of(key[0])
                batch.append(directory.log_directory.begin_opening(key, config, now_ms))
            else:
                self._count(directory, key)
        return batch

    def _end_batch(
        self, directory: _Directory, batch: list[LogOpening], failure: Exception | None
    ) -> list[TopicPartition]:
        """Note the ends of the openings. Returns the partitions that are open, or stay closed."""
        keys = []
        for opening in batch:
            self.progress.running.remove(opening)
            key = opening.recovery.topic, opening.recovery.index
            is_fault = failure is not None and not isinstance(failure, StoppedError)
            if is_fault and opening.log is None and opening.error is None:
                opening.error = StorageError(f"{opening.recovery} cannot be opened: {failure!r}")
                logger.error("partition %s stays closed: %r", opening.recovery, failure)
            directory.log_directory.end_opening(opening)
            if key not in directory.log_directory.unopened:
                keys.append(key)
                self._count(directory, key)
            if key in directory.log_directory.logs:
                self._retries.pop(key, None)
        return keys

    def _count(self, directory: _Directory, key: TopicPartition) -> None:
        if key in self._retries:
            return
        self.progress.opened += 1
        self.progress.closed += key in directory.log_directory.failed
        self.progress.bytes_ended += directory.work.get(key, 0)

    # Trying again

    def _retry_later(self) -> None:
        self._scheduler.call_after(RETRY_MS, self._retry)

    def _retry(self) -> None:
        """Have threads open logs again that failed with an error of the system, once their delay is over."""
        self._retry_later()  # first, so that a bug below does not end the retries
        now_ms = self._clock.monotonic_ms()
        for directory in self._directories:
            for key in directory.log_directory.refused:
                backoff = self._retries.setdefault(key, Backoff(RETRY_MS, MAX_RETRY_MS))
                if backoff.due_ms <= now_ms:
                    backoff.postpone(now_ms)
                    directory.log_directory.allow_retry(key)
                    directory.queue.append(key)
            self._open_queued(directory)

    # Progress

    def _log_progress(self) -> None:
        progress = self.progress
        if not progress.left:
            return
        logger.info(
            "%d of %d partitions are open, %.0f of %.0f MB are scanned; about %.0f s are left",
            progress.opened, progress.partitions, progress.bytes_scanned / 1e6, progress.bytes / 1e6,
            progress.seconds_left(self._clock.monotonic_ms()),
        )  # fmt: skip
        self._scheduler.call_after(PROGRESS_LOG_MS, self._log_progress)

    def _log_end(self) -> None:
        progress = self.progress
        took_s = (self._clock.monotonic_ms() - progress.began_ms) / 1000.0
        damaged = f"; {progress.closed} of them stay closed, for the reasons above" if progress.closed else ""
        logger.info("all %d partitions are open after %.1f s%s", progress.partitions, took_s, damaged)
        self._end()

    @property
    def is_done(self) -> bool:
        """Whether all logs are open, or could not be opened."""
        return self._is_done

    def when_done(self, resume: Callable[[], None]) -> None:
        """Call `resume()` once all logs are open; at once if they are."""
        if self._is_done:
            resume()
        else:
            self._when_done.append(resume)

    def _end(self) -> None:
        self._is_done = True
        for directory in self._directories:
            directory.work = {}
        for resume in self._when_done:
            resume()


def in_order(keys: Collection[TopicPartition], work: dict[TopicPartition, int]) -> list[TopicPartition]:
    """The order of opening: internal topics first, as groups wait for them; then the least to scan first. Pure."""
    return sorted(keys, key=lambda key: (key[0] not in COORDINATOR_TOPICS, work.get(key, 0), key))


def _work(log_directory: LogDirectory, key: TopicPartition) -> int:
    try:
        return log_directory.bytes_to_scan(key)
    except OSError:  # the opening reports the error
        return 0


def _survey(log_directory: LogDirectory, keys: Collection[TopicPartition]) -> Steps[dict[TopicPartition, int]]:
    """The bytes to scan of each log. For a thread, as this lists every partition's directory."""
    work = {}
    for key in keys:
        work[key] = _work(log_directory, key)
        yield
    return work


def _steps(batch: Sequence[LogOpening]) -> Steps[None]:
    for opening in batch:
        yield from opening.steps()
        yield
