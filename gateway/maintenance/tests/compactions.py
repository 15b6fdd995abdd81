"""What the tests of compaction share: topics that are dirty, and workers whose steps run when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headgate.gateway.app.composition import Seams
from headgate.gateway.maintenance.cleaner_process import ThreadWorker
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.records.batch import Record, build, iterate, read_header
from headgate.storage.cleanup.compaction.compaction_job import Job
from headgate.storage.disk.pool import Pool
from headgate.storage.log import flushing, rolling

NOW_MS = 1_700_000_000_000
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "1000"}


class Steps:
    """A worker whose steps run when the test says so."""

    def __init__(self, worker: ThreadWorker) -> None:
        self._worker = worker
        self.waiting: list[tuple[str, Callable[[], None], Callable[[Any], None]]] = []
        self.rates: list[float] = []
        self.is_closed = False

    def collect(self, job: Job, bytes_per_second: float, done: Callable[[Any], None]) -> None:
        self.job = job
        self.rates.append(bytes_per_second)
        self.waiting.append(("collect", lambda: self._worker.collect(job, 1e12, done), done))

    def rewrite(self, bases: Sequence[int], bytes_per_second: float, done: Callable[[Any], None]) -> None:
        self.waiting.append(("rewrite", lambda: self._worker.rewrite(bases, 1e12, done), done))

    def close(self) -> None:
        self.is_closed = True

    def step(self) -> str:
        name, run, _ = self.waiting.pop(0)
        run()
        return name

    def fail(self, error: BaseException) -> None:
        self.waiting.pop(0)[2](error)


class CompactingNode(HandlerBroker):
    """A node whose compactions go on when the test says so."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.workers: list[Steps] = []
        super().__init__(directory, **settings)

    def seams(self) -> Seams:
        return replace(super().seams(), make_worker=self._make_worker)

    def _make_worker(self, scheduler: Scheduler, pool: Pool) -> Steps:
        self.workers.append(Steps(ThreadWorker(scheduler, pool)))
        return self.workers[-1]


class Compactions:
    """The cleaning of a node, and the workers that it has made."""

    def __init__(self, node: CompactingNode) -> None:
        self.workers, self.cleaning = node.workers, node.parts.log_cleaner
        self._time = node.time

    def check(self) -> None:
        self.cleaning.check()
        self._time.advance()

    def run(self) -> list[str]:
        """Until nothing waits any more; the steps that were made."""
        made = []
        self.check()
        while waiting := [worker for worker in self.workers if worker.waiting]:
            made.append(waiting[0].step())
            self._time.advance()
        return made


def dirty(node: HandlerBroker, name: str = "t", times: int = 1, settings: Mapping[str, str] | None = None) -> Replica:
    """A topic with closed segments in which every key was written again and again."""
    if name not in node.services.metadata.image.topics:
        node.services.metadata.create_topic(name, 1, configs={**COMPACTED, **(settings or {})})
    replica = node.services.partitions.get(name, 0)
    for number in range(12 * times):
        record = Record(timestamp=NOW_MS, key=b"k%d" % (number % 3), value=b"%03d" % number + bytes(100))
        replica.append(memoryview(build([record])), 1, NOW_MS)
    rolling.roll(replica.log, NOW_MS)
    flushing.flush(replica.log)
    return replica


def offsets(replica: Replica) -> list[int]:
    found, offset = [], replica.log.start_offset
    while (piece := replica.read(offset, 1 << 20, 0, at_least_one=True)) is not None:
        data = piece.read()
        while data:
            header = read_header(data)
            found += [record.offset for record in iterate(data[: header.size])]
            data, offset = data[header.size :], header.last_offset + 1
    return found
