"""Unread offsets: where retention has to stop for groups, which this broker or another one coordinates.

The offsets of a group on this broker are read at once, if no election can take them back. Otherwise they count once all
in-sync replicas have them, as those of another coordinator, which is asked by OffsetFetch. Without an answer the offset
is 0: the hold stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import ClassVar, Final, NamedTuple

from headgate.gateway.coordinator.broker_requests import BrokerRequests, OtherBrokers
from headgate.gateway.coordinator.decision import Decision
from headgate.gateway.coordinator.groups.group_coordinator import GroupCoordinator
from headgate.gateway.runtime.tasks import Ask, Outcome, Task, at_most, value_of
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from headgate.protocol.schema import Message

ANSWER_MS: Final = 1_000.0
"""The longest wait for a coordinator: the retention of other logs comes behind."""


class OffsetQuestion(NamedTuple):
    """A group's offset in a partition. `resume` gets the offset, or the KafkaError."""

    group_id: str
    topic: str
    partition: int
    resume: Callable[[int | KafkaError], None]


class OffsetQuestions:
    """The `Gathering` of questions: OffsetFetch of many groups."""

    version: ClassVar[int | None] = 9  # the last one that names topics

    def take(self, queue: deque[OffsetQuestion]) -> tuple[Message, Sequence[OffsetQuestion]] | None:
        """Take everything."""
        taken = list(queue)
        queue.clear()
        if not taken:
            return None
        groups: dict[str, dict[str, list[int]]] = {}
        for question in taken:
            groups.setdefault(question.group_id, {}).setdefault(question.topic, []).append(question.partition)
        rows = [
            OffsetFetchRequestGroup(
                group_id, topics=[OffsetFetchRequestTopics(name, partition_indexes=of) for name, of in topics.items()]
            )
            for group_id, topics in groups.items()
        ]
        return OffsetFetchRequest(groups=rows), taken

    def end(self, taken: Sequence[OffsetQuestion], answer: Message | KafkaError) -> None:
        """Give each question its offset; -1: the group has committed nothing."""
        offsets: dict[tuple[str, str, int], int] = {}
        if isinstance(answer, OffsetFetchResponse):
            offsets = {
                (group.group_id, topic.name, row.partition_index): row.committed_offset
                for group in answer.groups
                if not group.error_code
                for topic in group.topics
                for row in topic.partitions
                if not row.error_code
            }
        failure = answer if isinstance(answer, KafkaError) else KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for question in taken:
            question.resume(offsets.get(question[:3], failure.copy()))


class UnreadOffsets:
    """Asks the coordinators of groups."""

    def __init__(self, groups: GroupCoordinator, brokers: OtherBrokers) -> None:
        self._groups = groups
        self._tasks = brokers.tasks
        self._node_id = brokers.node_id
        self.requests = BrokerRequests("retention", OffsetQuestions(), brokers)

    def first(self, group_ids: Collection[str], topic: str, partition: int) -> Outcome[int]:
        """The lowest committed offset of these groups in a partition; 0 if one has committed nothing, or is unknown.

        The task waits for functions alone.
        """
        if all(self._groups.coordinates(group_id) for group_id in group_ids) and self._groups.are_committed:
            return self._groups.first_unread(group_ids, topic, partition)
        return self._first(group_ids, topic, partition)

    def _first(self, group_ids: Collection[str], topic: str, partition: int) -> Task[int]:
        found = list[int]()
        for group_id in group_ids:
            try:
                if self._groups.coordinates(group_id):
                    ask: Ask = partial(self._tasks.start, self._committed(group_id, topic, partition))
                else:
                    ask = self._ask(self._groups.leader_of(group_id), group_id, topic, partition)
                answer = yield at_most(self._tasks.scheduler, ANSWER_MS, ask)
            except KafkaError:
                answer = None
            found.append(max(0, answer or 0))
        return min(found, default=0)

    def _committed(self, group_id: str, topic: str, partition: int) -> Task[int]:
        """The offset of a group on this broker, once all in-sync replicas have it. Raises KafkaError."""
        offset = self._groups.first_unread([group_id], topic, partition)
        if offset:  # replies wait for everything before them
            row = OffsetFetchResponseGroup(group_id)
            yield from value_of(self._groups.submit(group_id, lambda _, ticket: Decision.reply(ticket, row)))
        return offset

    def _ask(self, leader: int, group_id: str, topic: str, partition: int) -> Ask:
        def ask(resume: Callable[[int | KafkaError], None]) -> None:
            self.requests.add(leader, OffsetQuestion(group_id, topic, partition, resume))

        return ask
