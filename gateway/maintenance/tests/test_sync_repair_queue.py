"""Which logs are mended, in which order, and how often it is tried."""

from __future__ import annotations

import errno

import pytest

from headgate.gateway.maintenance.sync_repair_queue import RepairListener, SyncRepairQueue
from headgate.gateway.runtime.scheduler import StoppedError
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.protocol.errors import KafkaError
from headgate.storage.config import LogConfig
from headgate.storage.log import flushing
from headgate.storage.log.log import Log
from headgate.storage.recovery.sync_failure_repair import needing_repair
from headgate.storage.tests.builders import NOW_MS, TOPIC_ID, append, batch, open_store
from headgate.storage.tests.crashing_files import CrashingFiles


class Bench:
    """Two logs, both broken."""

    def __init__(self) -> None:
        self.time, self.files = ManualTime(), CrashingFiles()
        self.store = open_store(self.files)
        self.logs = [self.store.create(name, 0, TOPIC_ID, LogConfig(), NOW_MS) for name in "ab"]
        self.repaired: list[Log] = []
        self.cut: list[Log] = []
        for log in self.logs:
            append(log, batch())
            flushing.refuse_after_failed_sync(log, OSError(errno.EIO, "input/output error"))
        self.threads = self.time.scheduler.hold()
        self.mender = SyncRepairQueue(
            lambda: needing_repair(self.store.pool),
            lambda log: self.store.logs.get((log.topic, log.partition)) is log,
            RepairListener(self.cut.append, self.repaired.append),
            self.time.clock,
            self.time.scheduler,
        )


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_one_after_another(bench: Bench) -> None:
    bench.mender.run()
    bench.mender.run()
    assert len(bench.threads.waiting) == 1
    bench.threads.run_one()
    assert bench.repaired == bench.logs[:1]
    assert len(bench.threads.waiting) == 1
    bench.threads.run_one()
    assert bench.repaired == bench.logs
    assert not bench.store.pool.needs_repair
    assert not bench.threads.waiting
    for log in bench.logs:
        append(log, batch())


def test_one_that_fails_waits_longer_each_time_and_holds_up_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: str) -> None:
        if "a-0" in path:
            raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(bench.files, "sync_directory", refuse)
    bench.mender.run()
    bench.threads.run_one()
    bench.threads.run_one()
    assert bench.repaired == bench.logs[1:]
    tried = []
    for second in range(1, 200):
        bench.time.advance(1_000)
        bench.mender.run()
        if bench.threads.waiting:
            tried.append(second)
            bench.threads.run_one()
    assert tried == [1, 3, 7, 15, 31, 63, 123, 183]
    assert "a-0 still takes no records; the next repair is in 60 s" in caplog.text
    with pytest.raises(KafkaError, match="once more"):
        append(bench.logs[0], batch())


def test_a_fault_of_who_hears_of_it_holds_up_no_log(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def fault(log: Log) -> None:
        raise ValueError(f"a fault of ours at {log!r}")

    first, second = bench.logs
    bench.mender = SyncRepairQueue(
        lambda: needing_repair(bench.store.pool),
        lambda log: True,
        RepairListener(fault, bench.repaired.append),
        bench.time.clock,
        bench.time.scheduler,
    )
    bench.files.file(first.segments.active.path).content[-20:] = bytes(20)
    bench.mender.run()
    bench.threads.run_all()
    assert bench.repaired == [second]
    assert "a-0 still takes no records; the next repair is in 1 s: a fault of ours" in caplog.text
    bench.time.advance(1_000)
    bench.mender.run()
    bench.threads.run_all()
    assert bench.repaired == [second, first]
    assert (first.end_offset, first.sync_error) == (0, None)


@pytest.mark.parametrize("is_cut", [False, True])
def test_at_a_stop_nothing_more_is_begun_or_said(bench: Bench, caplog: pytest.LogCaptureFixture, is_cut: bool) -> None:
    log = bench.logs[0]
    if is_cut:
        bench.files.file(log.segments.active.path).content[-20:] = bytes(20)
    bench.mender.run()
    bench.time.scheduler.is_over = True
    bench.threads.run_one(None if is_cut else StoppedError("the loop ended"))
    assert not bench.threads.waiting
    assert log.sync_error is not None
    assert "the next repair is in" not in caplog.text


def test_once_the_disk_is_back_nothing_waits_any_longer(bench: Bench) -> None:
    fault = bench.files.fail(errno.EIO, "sync_directory")
    for _ in range(10):
        bench.mender.run()
        bench.threads.run_all()
        bench.time.advance(60_000)
    met = fault.met
    bench.mender.run()
    bench.threads.run_all()
    assert fault.met > met
    bench.files.heal()
    bench.mender.run()
    assert not bench.threads.waiting
    bench.mender.retry_all()
    bench.threads.run_all()
    assert bench.repaired == bench.logs


def test_a_deleted_log_is_forgotten(bench: Bench) -> None:
    bench.store.delete("a", 0)
    bench.mender.run()
    bench.store.delete("b", 0)
    bench.threads.run_one()
    assert not bench.store.pool.needs_repair
    assert not bench.threads.waiting
