"""A client that only commits, in bytes of its own, again and again: OffsetCommit v2, without being a member.

    request   group, generation -1, member "", retention ms -1, topics: [name, [partition, offset, metadata]]
    response  topics: [name, [partition, error]]

On each connection it asks for its coordinator before, as clients do: at that, the broker makes the topic of offsets.
Every commit gives all partitions the same number, one more than the one before.
"""

from __future__ import annotations

import socket
import struct
import threading
import time

from compat_tests.groups.committed import RETRIABLE, Answer
from compat_tests.harness import wire

OFFSET_COMMIT = 8
FIND_COORDINATOR = 10
ANSWER_LIMIT_S = 10.0
PAUSE_S = 0.01
# After every kill the topic of offsets is loaded: it must not outgrow the waits of a long run
BETWEEN_S = 0.005


class Committer:
    """A thread. `tried` and `acknowledged` are the last numbers that were sent and that were answered without error."""

    def __init__(self, bootstrap: str, group: str, topic: str, partitions: int) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self.topic = topic
        self.partitions = partitions
        self.tried = 0
        self.acknowledged = 0
        self.failure: BaseException | None = None
        self.is_closing = threading.Event()
        self.thread = threading.Thread(target=self.run, name=group, daemon=True)
        self.thread.start()

    def run(self) -> None:
        try:
            while not self.is_closing.is_set():
                self.commit_until_it_breaks()
                time.sleep(PAUSE_S)
        except BaseException as failure:  # noqa: BLE001  said by check()
            self.failure = failure

    def commit_until_it_breaks(self) -> None:
        """On one connection; a broker that is not there, or goes away, is what this is for."""
        try:
            with wire.connect(self.bootstrap, ANSWER_LIMIT_S) as stream:
                wire.ask(stream, FIND_COORDINATOR, 0, wire.string(self.group))
                while not self.is_closing.is_set():
                    self.commit(stream)
        except OSError:
            return

    def commit(self, stream: socket.socket) -> None:
        self.tried += 1
        errors = self.errors(wire.ask(stream, OFFSET_COMMIT, 2, self.request()))
        assert errors <= RETRIABLE | {0}, f"{self.group}: OffsetCommit was answered with {errors}"
        if errors == {0}:
            self.acknowledged = self.tried
        time.sleep(BETWEEN_S if errors == {0} else PAUSE_S)

    def request(self) -> bytes:
        rows = b"".join(
            struct.pack(">iq", partition, self.tried) + wire.string("") for partition in range(self.partitions)
        )
        head = wire.string(self.group) + struct.pack(">i", -1) + wire.string("") + struct.pack(">q", -1)
        return head + struct.pack(">i", 1) + wire.string(self.topic) + struct.pack(">i", self.partitions) + rows

    def errors(self, data: bytes) -> set[int]:
        answer = Answer(data)
        assert (answer.take(">i"), answer.text()) == (1, self.topic)
        assert answer.take(">i") == self.partitions
        found = [(answer.take(">i"), answer.take(">h")) for _ in range(self.partitions)]
        answer.assert_end()
        return {error for _, error in found}

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        self.is_closing.set()
        self.thread.join(2 * ANSWER_LIMIT_S)
        assert not self.thread.is_alive(), f"{self.group} still waits for an answer"
        self.check()
