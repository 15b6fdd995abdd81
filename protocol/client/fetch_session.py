"""The client's side of a fetch session (KIP-227): each request names only the partitions that have changed. Sans-IO.

    session = FetchSession()
    request = session.request({key: FetchPartition(...), ...}, max_wait_ms=500, min_bytes=1)
    ... the answer:  session.accept(response), or session.restart() after a lost answer

The first request names all partitions, and opens the session if the broker has room. Later requests name partitions
that are new or have another position, and those to forget. After a refusal or a lost answer it is unknown which
partitions the broker has: `restart` has the next request name all of them again, and closes the broker's session.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic

NO_SESSION = 0
FULL = 0
"""The session epoch of a request that names all partitions."""
LAST_EPOCH = 0x7FFF_FFFF

T = TypeVar("T")


class FetchKey(NamedTuple):
    """A partition in a session. Another topic of the same name has another id."""

    topic: str
    topic_id: bytes
    number: int


class FetchSession:
    """The partitions that the broker's session has, as far as the answers show."""

    __slots__ = ("_id", "epoch", "members")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self.epoch = FULL
        self.members: dict[FetchKey, None] = {}
        """The partitions that the last requests have named. Empty before a full request."""

    def request(
        self, named: Mapping[FetchKey, FetchPartition], forgotten: Collection[FetchKey] = (), **fields: Any
    ) -> FetchRequest:
        """The next request, with the other `fields` of its message. The broker still has the partitions left out."""
        self.members.update(dict.fromkeys(named))
        gone = self._forget(forgotten) if forgotten else []  # most requests forget nothing
        topics = _by_topic(named.items())
        return FetchRequest(
            session_id=self._id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic=name, topic_id=id_, partitions=rows) for (name, id_), rows in topics.items()],
            forgotten_topics_data=gone,
            **fields,
        )

    def _forget(self, forgotten: Collection[FetchKey]) -> list[ForgottenTopic]:
        leaving = [key for key in forgotten if key in self.members]
        for key in leaving:
            del self.members[key]
        topics = _by_topic((key, key.number) for key in leaving)
        return [ForgottenTopic(topic=name, topic_id=id_, partitions=rows) for (name, id_), rows in topics.items()]

    def accept(self, response: FetchResponse) -> bool:
        """Take the answer to the last request. False if the next request has to name all partitions."""
        if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = NO_SESSION
        elif response.error_code == ErrorCode.NONE:
            self._id = response.session_id
            if self._id != NO_SESSION:
                self.epoch = self.epoch + 1 if self.epoch < LAST_EPOCH else FULL + 1
                return True
        self.restart()
        return False

    def restart(self) -> None:
        """Name all partitions in the next request, which closes the broker's session and opens another one."""
        self.epoch = FULL
        self.members.clear()


def _by_topic(rows: Iterable[tuple[FetchKey, T]]) -> dict[tuple[str, bytes], list[T]]:
    topics: dict[tuple[str, bytes], list[T]] = {}
    for key, row in rows:
        topics.setdefault((key.topic, key.topic_id), []).append(row)
    return topics
