"""What clients and stores may show of one partition's offset, judged by what its clients did and when.

A commit takes effect somewhere between its begin and its end, or never, if nobody acknowledged it. A deletion is the
commit of None. While a group is in both stores, the log has ZooKeeper's offsets in ZooKeeper's order.
"""

from __future__ import annotations

from typing import Final

TRANSACTIONAL: Final = "transactional"
"""The kind of a commit that counts from its marker on."""


class Write:
    """A commit: `ended` is when its client knew the result, or gave up."""

    def __init__(self, value: int | None, begun: int, kind: str = "") -> None:
        self.value = value
        self.kind = kind
        self.begun = begun
        self.ended: int | None = None
        self.is_acknowledged = False

    def __repr__(self) -> str:
        return f"{self.value} [{self.begun}, {self.ended}]{'' if self.is_acknowledged else ' not acknowledged'}"

    def end(self, now: int, *, is_acknowledged: bool = False) -> None:
        """The first end counts."""
        if self.ended is None:
            self.ended, self.is_acknowledged = now, is_acknowledged


class Register:
    """The offset of one partition of a group."""

    def __init__(self) -> None:
        nothing = Write(None, 0)
        nothing.end(0, is_acknowledged=True)
        self.writes = [nothing]
        self.history: list[int | None] = []
        """What the node had, in order."""
        self._seen: dict[int, int] = {}
        self._gone: dict[int, int] = {}
        self._carried: set[int] = set()
        self._shard: object = None
        self._place = -1

    def problem(self, value: int | None, begun: int, now: int) -> str:
        """What is wrong with this value of a read from `begun` to `now`; empty if nothing is."""
        before = [one for one in self.writes if one.is_acknowledged and one.ended is not None and one.ended < begun]
        found = [one for one in self.writes if one.value == value]
        if not found:
            return f"nobody has committed {value}"
        later: list[Write] = []
        for one in found:
            later = [other for other in before if one.ended is not None and other.begun > one.ended]
            if not later:
                return self._came_back(value, begun, now)
        return f"{found} was read, and {later} came later"

    def _came_back(self, value: int | None, begun: int, now: int) -> str:
        """Reads, one after the other, never have an offset again after another one.

        After a deletion they may: a transaction that is committed for good writes its offset again.
        """
        if value is None:
            return ""
        for other, ended in self._seen.items():
            if other != value and ended < begun:
                self._gone.setdefault(other, now)
        if value in self._carried:
            return ""
        if self._gone.get(value, begun) < begun:
            if not self._may_be_written_again(value):
                return f"{value} was read again, after another offset"
            del self._seen[value], self._gone[value]
        self._seen.setdefault(value, now)
        return ""

    def _may_be_written_again(self, value: int) -> bool:
        """Whether a deletion came between the offset of a transaction and its marker: nobody tells of other commits."""
        return any(
            (one.ended is None or one.ended > self._seen[value]) and (marked.ended is None or one.begun < marked.ended)
            for marked in self.writes if marked.value == value and marked.kind == TRANSACTIONAL
            for one in self.writes if one.value is None
        )  # fmt: skip

    def carry(self, value: int, now: int) -> Write:
        """The leading side has no offset, so that of the other may count from now on: at the end of the entry.

        Where the group changes its mind, the entry may go on for a while, so nobody knows when.
        """
        write = Write(value, now)
        write.end(now)
        self.writes.append(write)
        self._carried.add(value)
        return write

    def order_problem(self, in_log: int | None, shard: object) -> str:
        """What is wrong with the log's offset of a dual group; a new shard may be behind the one before."""
        if shard is not self._shard:
            self._shard, self._place = shard, -1
        if in_log is None:
            return ""
        if in_log not in self.history:
            return f"the log has {in_log} before ZooKeeper"
        place = len(self.history) - 1 - self.history[::-1].index(in_log)
        if place < self._place:
            return f"the log has {in_log} after {self.history[self._place]}, and ZooKeeper had {in_log} before"
        self._place = place
        return ""

    def forget_order(self) -> None:
        """The group is not dual."""
        self._shard = None
