"""What the plan of one fetch would have to read from a disk: threads read it, and the fetch is planned again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.storage.files import FilePosition, WouldBlock

if TYPE_CHECKING:
    from headgate.gateway.runtime.purgatory import Purgatory, WaitList
    from headgate.gateway.runtime.scheduler import Scheduler

# As many partitions are brought from the disk together; the others come with the next fetch.
COLD_AT_ONCE = 64
NO_PLACES = frozenset[FilePosition]()


class DiskReads:
    """The cold reads of one fetch: those of its last plan, and those that threads do."""

    __slots__ = ("_noted", "_purgatory", "_scheduler", "under_way")

    def __init__(self, scheduler: Scheduler, purgatory: Purgatory) -> None:
        self._scheduler = scheduler
        self._purgatory = purgatory
        self._noted: list[WouldBlock] = []
        self.under_way = NO_PLACES
        """The places that threads read."""

    def __bool__(self) -> bool:
        """Whether the last plan noted any."""
        return bool(self._noted)

    def note(self, cold: WouldBlock) -> None:
        """Take a read that a plan would have had to wait for."""
        if len(self._noted) < COLD_AT_ONCE:
            cold.__traceback__ = None  # it holds the frames of what was given up
            self._noted.append(cold)
        else:
            cold.release()

    def start(self, brought: WaitList | None) -> set[FilePosition]:
        """Have a thread of each disk read what was noted and is not read yet; `brought` is touched. Gives the places.

        If nobody waits for it, it is only read where a thread is free at once.
        """
        by_disk: dict[str, list[WouldBlock]] = {}
        noted, self._noted = self._noted, []
        for one in noted:
            is_full = brought is None and self._scheduler.reads(one.disk).is_full
            if is_full or one.place in self.under_way:
                one.release()
            else:
                by_disk.setdefault(one.disk, []).append(one)
        for disk, these in by_disk.items():
            self._read(disk, these, brought)
        return {one.place for these in by_disk.values() for one in these}

    def _read(self, disk: str, cold: list[WouldBlock], brought: WaitList | None) -> None:
        places = {one.place for one in cold}
        self.under_way |= places

        def read() -> None:
            for one in cold:
                one.warm()

        def done(_: object) -> None:  # if it failed, the next plan fails too, and says so
            self.under_way -= places
            for one in cold:
                one.release()
            if brought is not None:
                self._purgatory.touch(brought)

        def is_wanted() -> bool:
            return brought is not None and bool(brought.waiters)

        self._scheduler.reads(disk).in_thread(read, done, is_wanted)
