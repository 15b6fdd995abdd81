"""The offsets that groups have committed, in any store, and the lag that follows: values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headgate.protocol.lag.verdicts import Verdict

NO_TIME: Final = -1
"""The time of a commit is not known; the survey that first saw the offset gives it one."""
NO_SUCH_PARTITION, UNKNOWN = "no such partition", "unknown"
"""Statuses beside those of `OffsetStatus`. They are the words of `headgate groups lag`."""


class Committed(NamedTuple):
    """A committed offset, and the time of the commit in ms since 1970, or NO_TIME."""

    offset: int
    time_ms: int


class OwningMember(NamedTuple):
    """The member of a group that reads a partition."""

    member_id: str
    client_id: str
    host: str


ReadOffsets = dict[str, dict[int, Committed]]
"""By topic and partition."""
Owners = Mapping[tuple[str, int], OwningMember]


@dataclass(slots=True)
class GroupReading:
    """A group as its store has it. `kind`: classic, consumer, zookeeper or spark.

    `members` is None where none are known, as for a query of Spark. `error`: why the offsets cannot be read.
    """

    name: str
    kind: str
    state: str = ""
    members: int | None = None
    owners: Owners = field(default_factory=dict)
    offsets: ReadOffsets = field(default_factory=dict)
    error: str | None = None

    def partitions(self) -> Iterator[tuple[str, int, Committed | None]]:
        """Each partition with an offset or an owner."""
        for topic, rows in self.offsets.items():
            for index, committed in rows.items():
                yield topic, index, committed
        for topic, index in self.owners:
            if index not in self.offsets.get(topic, ()):
                yield topic, index, None


class GroupPartitionLag(NamedTuple):
    """The lag of a group in one partition, to its end. None: not known, or nothing is committed.

    `status`: a value of `OffsetStatus`, NO_SUCH_PARTITION or UNKNOWN.
    """

    topic: str
    partition: int
    committed: Committed | None
    start: int | None
    end: int | None
    records: int | None
    seconds: float | None
    status: str
    verdict: Verdict | None
    leader: int | None
    owner: OwningMember | None
    stable_end: int | None = None
    """The last stable offset."""


class GroupLag(NamedTuple):
    """The lag of a group. `records` is the sum and `seconds` the most of its partitions, as far as known."""

    name: str
    kind: str
    state: str
    members: int | None
    records: int | None
    seconds: float | None
    verdict: Verdict | None
    error: str | None
    partitions: Sequence[GroupPartitionLag]


class LagSurvey(NamedTuple):
    """The lag of all groups that this broker shows, at a time in ms since 1970."""

    measured_ms: int
    groups: Sequence[GroupLag]
