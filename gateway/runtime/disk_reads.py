"""The disk reads that the plan of one fetch needs: threads run them, then the fetch is planned again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.gateway.runtime.tasks import WaitList
from headgate.storage.files import FilePosition, WouldBlock

if TYPE_CHECKING:
    from headgate.gateway.runtime.scheduler import Scheduler
    from headgate.gateway.runtime.tasks import Tasks

# At most this many partitions are read from the disk together; the others follow with the next fetch.
MAX_READS_AT_ONCE = 64
NO_PLACES = frozenset[FilePosition]()


class DiskReads:
    """The cold reads of one fetch: those of its last plan, and those in threads."""

    __slots__ = ("_scheduler", "_tasks", "_wanted_reads", "ended", "in_progress", "is_awaited")

    def __init__(self, scheduler: Scheduler, tasks: Tasks) -> None:
        self._scheduler = scheduler
        self._tasks = tasks
        self._wanted_reads: list[WouldBlock] = []
        self.in_progress = NO_PLACES
        """The places that threads read now."""
        self.ended = WaitList()
        """Touched when a thread has read places."""
        self.is_awaited = False
        """Whether the fetch waits for the reads. Otherwise places are read only if a thread is free at once."""

    def __bool__(self) -> bool:
        """Whether the last plan noted a read."""
        return bool(self._wanted_reads)

    def note(self, cold: WouldBlock) -> None:
        """Note a read that a plan would have blocked on."""
        if len(self._wanted_reads) < MAX_READS_AT_ONCE:
            cold.forget_plan()
            self._wanted_reads.append(cold)
        else:
            cold.release()

    def start(self) -> set[FilePosition]:
        """Read the noted places in a thread for each disk, then touch `ended`. Returns the places."""
        by_disk: dict[str, list[WouldBlock]] = {}
        noted, self._wanted_reads = self._wanted_reads, []
        for cold in noted:
            is_full = not self.is_awaited and self._scheduler.reads(cold.disk).is_full
            if is_full or cold.place in self.in_progress:
                cold.release()
            else:
                by_disk.setdefault(cold.disk, []).append(cold)
        for disk, reads in by_disk.items():
            self._read(disk, reads)
        return {cold.place for reads in by_disk.values() for cold in reads}

    def release(self) -> None:
        """Forget the noted places: the fetch has ended."""
        noted, self._wanted_reads = self._wanted_reads, []
        for cold in noted:
            cold.release()

    def _read(self, disk: str, reads: list[WouldBlock]) -> None:
        places = {cold.place for cold in reads}
        self.in_progress |= places

        def read() -> None:
            for cold in reads:
                cold.warm()

        def done(_: object) -> None:  # after a failed read the next plan fails too, and reports it
            self.in_progress -= places
            for cold in reads:
                cold.release()
            self._tasks.touch(self.ended)

        self._scheduler.reads(disk).in_thread(read, done, lambda: self.is_awaited)
