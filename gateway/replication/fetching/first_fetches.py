"""The first fetches of a leader epoch: a leader calls its followers for them, as acks=all waits.

A follower has one fetch at a time at a leader, and a fetch that finds nothing new is parked for
`replica.fetch.wait.max.ms`. A partition that the follower gets meanwhile is in its next fetch only, and acks=all waits
until then. So a leader answers the parked fetches of a follower once it leads a partition which that follower has to
fetch. The order to the follower may come later: until the partition was fetched, fetches are parked for `POLL_MS` only.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from headgate.gateway.runtime.tasks import NEVER, Tasks, WaitList

if TYPE_CHECKING:
    from headgate.gateway.replication.replica import Replica

POLL_MS: Final = 10.0
MAX_FOLLOWERS: Final = 1_000
"""A sender of a fetch chooses its node id: further ones are not called."""
EXPECTED_MS: Final = 2_000.0
"""A follower without a fetch for so long may have no order, or a failed disk: its fetches are parked as usual."""


class _Follower:
    """One follower, and the partitions that its next fetches have to name."""

    __slots__ = ("called", "unfetched", "until_ms")

    def __init__(self) -> None:
        self.called = WaitList()
        self.unfetched: dict[Replica, None] = {}
        self.until_ms = 0.0


class FirstFetches:
    """The followers that have not fetched a partition in its present leader epoch, by node id."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._followers: defaultdict[int, _Follower] = defaultdict(_Follower)
        self.is_expecting = False
        """Whether a follower is expected: `came` and `park_until_ms` have no effect otherwise."""

    def expect(self, replica: Replica) -> None:
        """Call the in-sync followers of a partition that have not fetched it in this leader epoch."""
        assert replica.progress is not None, f"{replica!r} has no followers"
        for node_id in replica.progress.unheard:
            self.is_expecting = True
            follower = self._followers[node_id]
            follower.unfetched[replica] = None
            follower.until_ms = self._tasks.monotonic_ms() + EXPECTED_MS
            self._tasks.touch(follower.called)

    def came(self, replica: Replica, node_id: int) -> None:
        """A follower has fetched a partition."""
        if node_id in self._followers:
            self._followers[node_id].unfetched.pop(replica, None)
        self._forget_late(self._tasks.monotonic_ms())

    def _forget_late(self, now_ms: float) -> None:
        for follower in self._followers.values():
            if now_ms >= follower.until_ms:
                follower.unfetched.clear()
        self.is_expecting = any(follower.unfetched for follower in self._followers.values())

    def called(self, node_id: int) -> WaitList:
        """The list that is touched when a follower has another partition to fetch."""
        if node_id not in self._followers and len(self._followers) >= MAX_FOLLOWERS:
            return WaitList()
        return self._followers[node_id].called

    def park_until_ms(self, node_id: int) -> float:
        """When to answer a fetch of a follower that finds nothing new, unless the fetch wants an earlier answer."""
        now_ms = self._tasks.monotonic_ms()
        self._forget_late(now_ms)
        is_expected = node_id in self._followers and self._followers[node_id].unfetched
        return now_ms + POLL_MS if is_expected else NEVER
