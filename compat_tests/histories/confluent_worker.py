"""A worker of a history: librdkafka reads a topic and writes to it, in transactions and without."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from compat_tests.harness.waiting import until
from compat_tests.histories.history import FAIL, INFO, OK

LIMIT_S: Final = 60.0
ANSWER_LIMIT_S: Final = 20.0
# The longest pause between two operations: faults fall into enough of them, and a round takes fewer CPU seconds
PAUSE_S: Final = 0.03
SESSION_MS: Final = 6_000
# Longer than the session of a broker, and the time that a busy machine needs
HUNG_S: Final = 12.0
# As in the copier of librdkafka: it may keep a broker that is gone as the coordinator, and not ask again
USUAL: Final[Mapping[str, Any]] = {
    "log_level": 2,
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
}


# The broker refuses a record with this value for good
MAX_MESSAGE_BYTES: Final = 1000
TOO_LARGE: Final = "." * MAX_MESSAGE_BYTES


class Told(NamedTuple):
    """What the client was told of a write."""

    offset: int | None
    outcome: str


UNTOLD: Final = Told(None, INFO)


class Recorder:
    """Writes events to the file of a history; any thread may call."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.acknowledged: dict[str, int] = {}
        self._file = path.open("w")
        self._lock = threading.Lock()
        self._next = 0

    def write(self, line: str) -> None:
        event = json.loads(line)
        with self._lock:
            self._file.write(f"{line.strip()}\n")
            if event["type"] == OK and event["kind"] in {"send", "transaction"}:
                self.acknowledged[event["process"]] = self.acknowledged.get(event["process"], 0) + 1

    def invoke(self, process: str, kind: str, **fields: Any) -> Callable[..., None]:
        """Note the invocation; call the result with the outcome."""
        with self._lock:
            self._next += 1
            number = self._next
        head = {"process": process, "operation": number, "kind": kind}

        def note(outcome: str, **more: Any) -> None:
            self.write(json.dumps({"type": outcome, **head, "time_ns": time.monotonic_ns(), **more}))

        note("invoke", **fields)
        return note

    def close(self) -> None:
        self._file.close()


class ConfluentWorker:
    """A thread from the constructor on, until `finish`."""

    def __init__(
        self,
        recorder: Recorder,
        bootstrap: str,
        topic: str,
        partitions: int,
        seed: str,
        timeout_ms: int,
        shared_group: str | None = None,
    ) -> None:
        """A worker reads all partitions, or with a shared group those that the group assigns to it."""
        self.name = f"librdkafka-{seed}"
        self.recorder, self.topic, self.timeout_ms = recorder, topic, timeout_ms
        self.chance = random.Random(seed)
        self.partitions = range(partitions)
        self.is_member = shared_group is not None
        self.group = shared_group or f"group-{self.name}"
        self.values = 0
        self.failure: BaseException | None = None
        # Of the partitions that are assigned to this worker
        self.positions: dict[int, int] = {}
        self.has_rebalanced = False
        # A request without an answer must not hide that a client stands still; no transaction may last less long
        usual = {**USUAL, "socket.timeout.ms": timeout_ms}
        self._usual = {**usual, "bootstrap.servers": bootstrap, "client.id": self.name}
        self._producer: Producer | None = None
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def ask_to_end(self) -> None:
        self._is_ending.set()

    def finish(self, limit_s: float) -> None:
        """Wait for the end of the last operation; one that does not end has no outcome."""
        self._is_ending.set()
        self._thread.join(limit_s)

    def _run(self) -> None:
        reading = {
            "group.id": self.group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": SESSION_MS,
        }
        self.plain = Producer({**self._usual, "enable.idempotence": True, "linger.ms": 1})
        try:
            with closing(Consumer({**self._usual, **reading, "fetch.wait.max.ms": 100})) as self.consumer:
                if self.is_member:
                    self.consumer.subscribe([self.topic], on_assign=self._on_assign, on_revoke=self._on_revoke)
                else:
                    self._assign(dict.fromkeys(self.partitions, 0))
                while not self._is_ending.wait(self.chance.uniform(0, PAUSE_S)):
                    self._step()
                self._ask_committed()
        except BaseException as failure:  # noqa: BLE001  raised again by the round
            self.failure = failure

    def _on_revoke(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.has_rebalanced = True
        self.positions = {}

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Begin at the committed offsets, which are those of ended transactions; an answer must come."""
        self.has_rebalanced = True
        found: list[TopicPartition] = []

        def is_told() -> bool:
            try:
                found[:] = consumer.committed(partitions, timeout=ANSWER_LIMIT_S)
            except KafkaException:
                return False
            return all(one.error is None for one in found)

        until(is_told, f"committed offsets of {self.group}", LIMIT_S, 0.1)
        self._assign({one.partition: max(one.offset, 0) for one in found})

    def _assign(self, positions: dict[int, int]) -> None:
        note = self.recorder.invoke(self.name, "assign")
        self.consumer.assign([self._at(partition, offset) for partition, offset in positions.items()])
        self.positions = positions
        note(OK, offsets=self._keys(positions))

    def _step(self) -> None:
        self.chance.choice([self._poll, self._ask_committed, *[self._send] * 2, *[self._transaction] * 6])()

    def _at(self, partition: int, offset: int) -> TopicPartition:
        return TopicPartition(self.topic, partition, offset)

    def _key(self, partition: int) -> str:
        return f"{self.topic}-{partition}"

    def _keys(self, offsets: Mapping[int, int]) -> dict[str, int]:
        return {self._key(partition): offset for partition, offset in offsets.items()}

    def _poll(self) -> None:
        self.has_rebalanced = False
        note = self.recorder.invoke(self.name, "poll")
        note(OK, reads=self._read(0.1))

    def _read(self, wait_s: float) -> list[tuple[str, int, str]]:
        """Wait for the first record, and take some that are there; the positions follow."""
        found = []
        for number in range(self.chance.randint(1, 30)):
            message = self.consumer.poll(0 if number else wait_s)
            if message is None:
                break
            if message.error() is not None:
                continue
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert value is not None
            if self.has_rebalanced:
                # This operation began before the new positions: the next one reads
                self.consumer.seek(self._at(partition, offset))
                break
            found.append((self._key(partition), offset, value.decode()))
            self.positions[partition] = offset + 1
        return found

    def _ask_committed(self) -> None:
        note = self.recorder.invoke(self.name, "committed", group=self.group)
        try:
            found = self.consumer.committed([self._at(one, 0) for one in self.partitions], timeout=ANSWER_LIMIT_S)
        except KafkaException as failure:
            note(INFO, text=str(failure))
            return
        told = {one.partition: one.offset for one in found if one.error is None and one.offset >= 0}
        note(OK, group=self.group, offsets=self._keys(told))

    def _plan(self) -> dict[str, int]:
        """New values, each with its partition."""
        count = self.chance.randint(1, 4)
        self.values += count
        return {f"{self.name}-{self.values - left}": self.chance.choice(self.partitions) for left in range(count)}

    def _writes(self, planned: Mapping[str, int], told: Mapping[str, Told]) -> list[tuple[Any, ...]]:
        return [(self._key(partition), value, *told.get(value, UNTOLD)) for value, partition in planned.items()]

    def _produce(self, producer: Producer, planned: Mapping[str, int], told: dict[str, Told]) -> None:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            value, offset = message.value(), message.offset()
            assert value is not None
            if error is None:
                told[value.decode()] = Told(offset if offset is not None and offset >= 0 else None, OK)
            elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                told[value.decode()] = Told(None, FAIL)

        for value, partition in planned.items():
            producer.produce(self.topic, value.encode(), partition=partition, on_delivery=on_delivery)

    def _send(self) -> None:
        planned = self._plan()
        if self.chance.random() < 0.1:
            # Alone: librdkafka goes on with a new producer epoch, in which it repeats records whose answers were lost
            planned = {f"{self.name}-{self.values}-{TOO_LARGE}": self.chance.choice(self.partitions)}
        told: dict[str, Told] = {}
        note = self.recorder.invoke(self.name, "send", writes=self._writes(planned, told))
        self._produce(self.plain, planned, told)
        self.plain.flush(LIMIT_S)
        note(OK if told.keys() == planned.keys() else INFO, writes=self._writes(planned, told))

    def _transaction(self) -> None:
        self.has_rebalanced = False
        planned = self._plan()
        told: dict[str, Told] = {}
        rest: dict[str, Any] = {}
        before = dict(self.positions)
        note = self.recorder.invoke(self.name, "transaction", writes=self._writes(planned, told))
        try:
            outcome = self._attempt(planned, told, before, rest)
        except KafkaException as failure:
            rest["text"] = repr(failure)
            outcome = self._abort(failure)
        except Hung as hung:
            rest["text"] = repr(hung)
            outcome, self._producer = INFO, None
        note(outcome, writes=self._writes(planned, told), **rest)
        if outcome != OK and not self.has_rebalanced:
            # Read again what the transaction has read
            self._assign(before)

    def _attempt(
        self, planned: Mapping[str, int], told: dict[str, Told], before: Mapping[int, int], rest: dict[str, Any]
    ) -> str:
        """The outcome of a transaction that nothing disturbs."""
        producer = self._begin()
        first = dict(list(planned.items())[: len(planned) // 2])
        self._produce(producer, first, told)
        rest["reads"] = self._read(0.02)
        self._produce(producer, dict(list(planned.items())[len(first) :]), told)
        if self.has_rebalanced:
            insist(lambda: producer.abort_transaction(LIMIT_S))
            return FAIL
        moved = {partition: offset for partition, offset in self.positions.items() if offset != before[partition]}
        if moved and self.chance.random() < 0.5:
            rest |= {"group": self.group, "offsets": self._keys(moved)}
            offsets = [self._at(partition, offset) for partition, offset in moved.items()]
            metadata = self.consumer.consumer_group_metadata()
            within(lambda: insist(lambda: producer.send_offsets_to_transaction(offsets, metadata, LIMIT_S)))
        if self.chance.random() < 0.25:
            producer.flush(self.chance.choice([0, LIMIT_S]))
            insist(lambda: producer.abort_transaction(LIMIT_S))
            return FAIL
        rest["decided_ns"] = time.monotonic_ns()
        insist(lambda: producer.commit_transaction(LIMIT_S))
        return OK

    def _begin(self) -> Producer:
        if self._producer is None:
            writing = {"transactional.id": f"{self.name}-{self.topic}", "transaction.timeout.ms": self.timeout_ms}
            producer = Producer({**self._usual, **writing, "batch.num.messages": 5, "linger.ms": 1})
            insist(lambda: producer.init_transactions(LIMIT_S))
            self._producer = producer
        self._producer.begin_transaction()
        return self._producer

    def _abort(self, failure: KafkaException) -> str:
        """A producer that cannot abort is given up: the next one with its transactional id ends the transaction."""
        producer = self._producer
        if producer is None:
            return FAIL
        if failure.args[0].txn_requires_abort():
            try:
                insist(lambda: producer.abort_transaction(LIMIT_S))
            except KafkaException:
                pass
            else:
                return FAIL
        self._producer = None
        return INFO


class Hung(Exception):
    """A call of librdkafka does not return."""


def within(call: Callable[[], None]) -> None:
    """Call in a thread of its own, and leave that behind if the call hangs.

    librdkafka 2.16 asks a coordinator that the cluster has lost for good, whatever the call's time-out (its issues 5456
    and 5511); any other broker that is lost wakes the call up. Its producer is of no use until then.
    """
    failures: list[KafkaException] = []

    def run() -> None:
        try:
            call()
        except KafkaException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run, name="call of librdkafka", daemon=True)
    thread.start()
    thread.join(HUNG_S)
    if thread.is_alive():
        raise Hung("send_offsets_to_transaction")
    for failure in failures:
        raise failure


def insist(call: Callable[[], None]) -> None:
    """Call until the error is none that goes away, as the documentation of librdkafka asks for."""
    while True:
        try:
            call()
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise
        else:
            return
