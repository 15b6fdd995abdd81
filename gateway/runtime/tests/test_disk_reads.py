"""Reads that a fetch leaves to threads."""

from __future__ import annotations

from headgate.gateway.runtime.disk_reads import MAX_READS_AT_ONCE, DiskReads
from headgate.gateway.runtime.tasks import Changes, Task, Tasks, WaitList
from headgate.gateway.runtime.tests.fake_scheduler import HeldThreads, ManualTime
from headgate.storage.files import HeldFiles, WouldBlock
from headgate.storage.tests.builders import batch
from headgate.storage.tests.crashing_files import CrashingFiles


def reads() -> tuple[DiskReads, HeldThreads, list[WaitList]]:
    """With the threads, and the touches of those who wait for the reads."""
    time = ManualTime()
    tasks, touched = Tasks(time.clock, time.scheduler), list[WaitList]()
    cold = DiskReads(time.scheduler, tasks)

    def waits() -> Task[None]:
        changes = Changes((cold.ended,))
        while True:
            touched.append((yield changes))

    tasks.start(waits())
    cold.is_awaited = True
    return cold, time.scheduler.hold(), touched


def cold_read(held: HeldFiles, number: int = 0, disk: str = "/a") -> WouldBlock:
    files = CrashingFiles()
    files.make_directories("/a")
    files.write("/a/f", bytes(batch()))
    file = files.open("/a/f")
    file.held, file.disk = held, disk
    read = WouldBlock(file, f"/a/{number}", 10, 0)
    file.release()
    return read


def test_each_disk_has_a_thread_and_the_end_of_it_is_told() -> None:
    cold, threads, touched = reads()
    held = HeldFiles()
    for number, disk in enumerate(("/a", "/a", "/b")):
        cold.note(cold_read(held, number, disk))
    assert cold
    assert cold.start() == {("/a/0", 0), ("/a/1", 0), ("/a/2", 0)}
    assert not cold
    assert len(threads.waiting) == 2
    threads.run_one()
    assert cold.in_progress == {("/a/2", 0)}
    assert touched == [cold.ended]
    threads.run_one()
    assert held.count == 0


def test_what_is_read_already_is_not_read_twice() -> None:
    cold, threads, _ = reads()
    held = HeldFiles()
    cold.note(cold_read(held))
    cold.start()
    cold.note(cold_read(held))
    assert cold.start() == set()
    assert len(threads.waiting) == 1
    assert held.count == 1, "that of the second was given back"


def test_only_so_many_are_noted() -> None:
    cold, _, _ = reads()
    held = HeldFiles()
    for number in range(MAX_READS_AT_ONCE + 5):
        cold.note(cold_read(held, number))
    assert held.count == MAX_READS_AT_ONCE
    cold.release()
    assert (held.count, bool(cold)) == (0, False)
