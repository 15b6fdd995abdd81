"""A compaction computed elsewhere: the same result from a process and from a thread; pace, failures, ends."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from headgate.gateway.maintenance import cleaner_process
from headgate.gateway.maintenance.cleaner_process import ProcessWorker, ThreadWorker, WorkerFailed, best_worker, paced
from headgate.gateway.runtime.clock import SystemClock
from headgate.gateway.runtime.scheduler import Scheduler, StoppedError
from headgate.protocol.records.batch import Record, build
from headgate.storage.cleanup.compaction.compaction_job import Collected, Damaged, Job, Rewritten, assess, plan
from headgate.storage.cleanup.compaction.computation import Computation
from headgate.storage.config import LogConfig
from headgate.storage.disk.pool import Pool
from headgate.storage.files import Files
from headgate.storage.log import appending, flushing, rolling
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import open_directory

NOW_MS = 1_700_000_000_000
COMPACT = LogConfig(cleanup_policy=("compact",), segment_bytes=10_000)
NO_LIMIT = 1e12


def written(log: Log) -> list[bytes]:
    """The new segments and their indexes."""
    return [path.read_bytes() for path in sorted(Path(log.directory).glob("*.cleaned"))]


@pytest.fixture
def log(tmp_path: Path) -> Any:
    store = open_directory(str(tmp_path), files=Files(), node_id=0, config=COMPACT, now_ms=NOW_MS, random=Random(1))
    log = store.create("t", 0, bytes(16), COMPACT, NOW_MS)
    for number in range(200):
        record = Record(-1, NOW_MS, b"k%d" % (number % 7), b"%d" % number + bytes(100))
        appending.append(log, memoryview(build([record], compression=number % 5)), leader_epoch=0, now_ms=NOW_MS)
    rolling.roll(log, NOW_MS)
    flushing.flush(log)
    yield log
    store.close()


def job(log: Log) -> Job:
    dirt = assess(log, NOW_MS, log.end_offset)
    return plan(log, dirt, NOW_MS, table_bytes=1 << 20, read_bytes=1 << 16)


def answers(scenario: Callable[[Scheduler, Callable[[Callable[..., None]], Any]], Any]) -> Any:
    """Run a scenario on a loop; what it awaits is what a worker calls `done` with."""

    async def run() -> Any:
        scheduler = Scheduler(SystemClock())

        async def ask(begin: Callable[..., None], *arguments: Any) -> Any:
            event, got = trio.Event(), []

            def done(result: Any) -> None:
                got.append(result)
                event.set()

            begin(*arguments, NO_LIMIT, done)
            with trio.fail_after(60):
                await event.wait()
            return got[0]

        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            result = await scenario(scheduler, ask)
            nursery.cancel_scope.cancel()
        return result

    return trio.run(run)


@pytest.mark.slow
@pytest.mark.sockets
def test_a_process_finds_what_a_thread_finds(log: Log) -> None:
    async def with_worker(worker: Any, ask: Any) -> tuple[Any, list[Any], list[bytes]]:
        collected = await ask(worker.collect, job(log))
        rewritten = [await ask(worker.rewrite, bases) for bases in collected.groups]
        made = written(log)
        worker.close()
        return collected, rewritten, made

    async def scenario(scheduler: Scheduler, ask: Any) -> Any:
        return [
            await with_worker(worker, ask) for worker in (ProcessWorker(scheduler), ThreadWorker(scheduler, log.pool))
        ]

    process, thread = answers(scenario)
    assert process == thread
    collected, rewritten, made = process
    assert isinstance(collected, Collected)
    assert collected.end_offset == 200
    assert all(isinstance(one, Rewritten) for one in rewritten)
    assert sum(one.kept_records for one in rewritten) == 7
    assert len(made) == 3 * len(rewritten)


@pytest.mark.slow
@pytest.mark.sockets
def test_what_goes_wrong_in_a_process_is_raised_here(log: Log) -> None:
    async def scenario(scheduler: Scheduler, ask: Any) -> Any:
        worker = ProcessWorker(scheduler)
        sound = job(log)
        files, path = log.pool.files, log.segments[0].path
        content = files.read(path)
        files.write(path, content[:70] + b"\xff\xff" + content[72:])
        results = [await ask(worker.collect, sound)]
        files.remove(path)
        results.append(await ask(worker.collect, sound))
        files.write(path, content)
        results.append(await ask(worker.collect, sound))
        worker.close()
        return results

    damaged, missing, collected = answers(scenario)
    assert isinstance(damaged, Damaged)
    assert "CRC" in str(damaged)
    assert isinstance(missing, FileNotFoundError)
    assert isinstance(collected, Collected), "the process goes on"


@pytest.mark.slow
@pytest.mark.sockets
def test_a_process_that_dies_is_replaced(log: Log) -> None:
    async def scenario(scheduler: Scheduler, ask: Any) -> Any:
        worker = ProcessWorker(scheduler)
        await ask(worker.collect, job(log))
        assert worker.process is not None
        worker.process.send_signal(signal.SIGKILL)
        worker.process.wait()
        results = [await ask(worker.collect, job(log)), await ask(worker.collect, job(log))]
        worker.close()
        return results

    failed, collected = answers(scenario)
    assert isinstance(failed, WorkerFailed)
    assert "code -9" in str(failed)
    assert isinstance(collected, Collected)


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.parametrize("by_close", [True, False])
def test_it_stops_in_the_middle_of_a_step(log: Log, by_close: bool) -> None:
    """By itself, and when the loop ends, which waits for the thread that waits for the process."""
    got: list[Any] = []

    async def run() -> None:
        scheduler = Scheduler(SystemClock())
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            worker = ProcessWorker(scheduler)
            worker.collect(job(log), 1.0, got.append)  # a byte a second: this takes hours
            with trio.fail_after(60):
                while worker.process is None:  # noqa: ASYNC110  a thread starts it
                    await trio.sleep(0.01)
                if by_close:
                    worker.close()
                    while not got:  # noqa: ASYNC110  a callback has it
                        await trio.sleep(0.01)
                nursery.cancel_scope.cancel()
        assert worker.process is None

    trio.run(run)
    assert all(isinstance(result, StoppedError) for result in got)


@pytest.mark.slow
@pytest.mark.sockets
def test_the_process_ends_with_the_broker(log: Log) -> None:
    """By the end of its standard input, in the middle of a step too: nobody else would tell it."""
    process = cleaner_process._start()
    assert process.stdin is not None
    assert process.stdout is not None
    import dataclasses
    import json

    request = {"job": dataclasses.asdict(job(log)), "bytes_per_second": 1.0}
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.close()
    assert process.wait(60) == 0
    assert process.stdout.read() == b""
    process.stdout.close()


def test_where_the_files_are_not_those_of_the_machine_it_is_a_thread(log: Log) -> None:
    scheduler = Scheduler(SystemClock())
    assert isinstance(best_worker(scheduler, log.pool), ProcessWorker)

    class OtherFiles(Files):
        pass

    assert isinstance(best_worker(scheduler, Pool(OtherFiles())), ThreadWorker)


def test_no_more_is_moved_than_a_second_may_have(log: Log) -> None:
    work = Computation(Pool(Files()), job(log))
    time_s = 0.0
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal time_s
        slept.append(seconds)
        time_s += seconds

    steps = paced(work.collect(), work, 1000.0, lambda: time_s, sleep)
    for _ in steps:
        assert work.moved_bytes <= 1000.0 * (time_s + max([0.0, *slept])) + 400, "a batch ahead at most"
    assert time_s == pytest.approx(work.moved_bytes / 1000.0, rel=0.05)
    assert max(slept) <= 0.1 + 1e-9, "whoever has to stop does so soon"
