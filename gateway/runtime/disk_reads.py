"""The disk reads that the plan of one fetch needs: threads run them, then the fetch is planned again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.storage.files import FilePosition, WouldBlock

if TYPE_CHECKING:
    from headgate.gateway.runtime.purgatory import Purgatory, WaitList
    from headgate.gateway.runtime.scheduler import Scheduler

# At most this many partitions are read from the disk together; the others follow with the next fetch.
MAX_READS_AT_ONCE = 64
NO_PLACES = frozenset[FilePosition]()


class DiskReads:
    """The cold reads of one fetch: those of its last plan, and those in threads."""

    __slots__ = ("_purgatory", "_scheduler", "_wanted_reads", "in_progress")

    def __init__(self, scheduler: Scheduler, purgatory: Purgatory) -> None:
        self._scheduler = scheduler
        self._purgatory = purgatory
        self._wanted_reads: list[WouldBlock] = []
        self.in_progress = NO_PLACES
        """The places that threads read now."""

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

    def start(self, warmed: WaitList | None) -> set[FilePosition]:
        """Read the noted places in a thread for each disk, then touch `warmed`. Returns the places.

        Without `warmed` no request waits; then the places are read only if a thread is free at once.
        """
        by_disk: dict[str, list[WouldBlock]] = {}
        noted, self._wanted_reads = self._wanted_reads, []
        for cold in noted:
            is_full = warmed is None and self._scheduler.reads(cold.disk).is_full
            if is_full or cold.place in self.in_progress:
                cold.release()
            else:
                by_disk.setdefault(cold.disk, []).append(cold)
        for disk, reads in by_disk.items():
            self._read(disk, reads, warmed)
        return {cold.place for reads in by_disk.values() for cold in reads}

    def _read(self, disk: str, reads: list[WouldBlock], warmed: WaitList | None) -> None:
        places = {cold.place for cold in reads}
        self.in_progress |= places

        def read() -> None:
            for cold in reads:
                cold.warm()

        def done(_: object) -> None:  # after a failed read the next plan fails too, and reports it
            self.in_progress -= places
            for cold in reads:
                cold.release()
            if warmed is not None:
                self._purgatory.touch(warmed)

        def is_wanted() -> bool:
            return warmed is not None and bool(warmed.waiters)

        self._scheduler.reads(disk).in_thread(read, done, is_wanted)
