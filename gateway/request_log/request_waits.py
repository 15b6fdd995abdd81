"""What a request concerns, and what its handler may wait for: topics, replicas, members of a group, the coordinator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.fetch import FetchRequest
from headgate.protocol.messages.join_group import JoinGroupRequest
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from headgate.gateway.replication.replica import Replica
    from headgate.protocol.schema import Message

MAX_TOPICS: Final = 10
MAX_NAMED: Final = 5
"""So many partitions are named that a request waits for."""
ACKS_ALL: Final = -1


class RequestWait(NamedTuple):
    """A wait of a handler. `asked_ms`: how long the client itself wants to wait, such as for new records.

    `refresh` describes a wait that has become long.
    """

    text: str
    asked_ms: float = 0.0
    refresh: Callable[[], str] | None = None


NO_WAIT: Final = RequestWait("")
"""Of a request that is not read yet."""
_DISK: Final = RequestWait("the disk, or a conversion")
_OWN_WORK: Final = RequestWait("its own work")


def describe(request: Message, context: Any) -> tuple[Sequence[str], RequestWait]:
    """The names of the first topics of a request, and its wait. `context`: that of its handler."""
    return topics_of(request, context), _wait_of(request, context)


def topics_of(request: Any, context: Any) -> list[str]:
    """The names of the first topics of a request; of a request by topic ids, those that are known."""
    topics = getattr(request, "topic_data", None) or getattr(request, "topics", None)
    if not topics:
        return []
    first = topics if len(topics) <= MAX_TOPICS else list(islice(topics, MAX_TOPICS + 1))
    names = [_name_of(topic, context) for topic in first]
    return names if len(names) == 1 and names[0] else list(filter(None, dict.fromkeys(names)))


def _name_of(topic: Any, context: Any) -> str:
    if isinstance(topic, str):
        return topic
    name: str | None = getattr(topic, "name", None) or getattr(topic, "topic", None)
    return name or context.broker.metadata.image.topic_names.get(getattr(topic, "topic_id", None), "")


def _wait_of(request: Any, context: Any) -> RequestWait:
    describe_wait = _WAITS.get(type(request))
    if describe_wait is not None:
        return describe_wait(request, context)
    group_id = getattr(request, "group_id", None)
    if group_id:
        return RequestWait(f"the coordinator of group {group_id}")
    transactional_id = getattr(request, "transactional_id", None)
    if transactional_id:
        return RequestWait(f"the coordinator of transactional id {transactional_id}")
    return _OWN_WORK


def _wait_of_fetch(request: FetchRequest, _context: Any) -> RequestWait:
    text = f"{request.min_bytes} bytes, for at most {request.max_wait_ms} ms"
    return RequestWait(text, float(request.max_wait_ms))


def _wait_of_produce(request: ProduceRequest, context: Any) -> RequestWait:
    if request.acks != ACKS_ALL:
        return _DISK
    wanted = [
        (topic.name, data.index) for topic in islice(request.topic_data, MAX_NAMED) for data in topic.partition_data
    ]
    partitions = context.broker.partitions
    return RequestWait("acks of the in-sync replicas", refresh=lambda: _describe_acks(partitions, wanted[:MAX_NAMED]))


def _describe_acks(partitions: Any, wanted: Sequence[tuple[str, int]]) -> str:
    """The replicas whose acks are missing now; without one, the disk."""
    missing = list(filter(None, (_missing_acks(partitions, topic, index) for topic, index in wanted)))
    return f"acks of {', '.join(missing)}" if missing else _DISK.text


def _missing_acks(partitions: Any, topic: str, index: int) -> str:
    try:
        replica: Replica = partitions.get(topic, index)
    except KafkaError as error:
        return f"{topic}-{index}, which this broker leads no more ({error.code.name})"
    progress = replica.progress
    if progress is None:
        return ""
    lags = progress.lags(replica.log.start_offset, replica.log.end_offset)
    nodes = [str(node_id) for node_id, lag in lags if lag and node_id in progress.counted]
    return f"replica{'s' * (len(nodes) > 1)} {','.join(sorted(nodes))} of {topic}-{index}" if nodes else ""


_WAITS: Final[Mapping[type, Callable[[Any, Any], RequestWait]]] = {
    FetchRequest: _wait_of_fetch,
    ProduceRequest: _wait_of_produce,
    JoinGroupRequest: lambda request, _: RequestWait(f"the members of group {request.group_id} to join", math.inf),
    SyncGroupRequest: lambda request, _: RequestWait(
        f"the assignment by the leader of group {request.group_id}", math.inf
    ),
}
