"""One run of a scenario of transactions: its questions, and the answers as lines that two brokers can be compared by.

Producer ids are another's on every broker: each goes by the transactional id that it was given to. Times are left out,
or "made". Batches are lines too, so that the logs of both brokers are compared, markers and internal topics included.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol

from headgate.gateway.coordinator.groups.tests.response_lines import ResponseLines
from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal import offsets, transactions
from headgate.protocol.internal.offsets import OffsetCommitKey
from headgate.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headgate.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headgate.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headgate.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.find_coordinator import TRANSACTION, FindCoordinatorRequest
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headgate.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headgate.protocol.records import batch, control
from headgate.protocol.records.batch import BatchHeader, Record
from headgate.protocol.schema import Message, Struct

TIMESTAMP_MS = 1_700_000_000_000
PREPARED = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
SETTLED_WITHIN_MS = 30_000
RESTARTED_WITHIN_S = 120
_STEP_MS = 20
_TIMES = frozenset(("transaction_last_update_timestamp_ms", "commit_timestamp", "expire_timestamp"))
# Of Produce, which other clients are told too: a duplicate's time, and where the log starts when a batch is refused
_OF_ANY_PRODUCER = frozenset(("log_append_time_ms", "log_start_offset"))
_MADE_TIMES = frozenset(("transaction_start_time_ms", "transaction_start_timestamp_ms", "last_timestamp"))
_PRODUCER_IDS = frozenset(("producer_id", "previous_producer_id", "next_producer_id"))
_EPOCHS_BETWEEN = re.compile(
    r"exhausted-.*producer_epoch=([1-9]\d{0,3}|[12]\d{4}|3[01]\d{3}|32[0-6]\d\d|327[0-5]\d|3276[0-4])\b"
)
"""Those that `renew` goes through."""
# COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_LOADING = re.compile(r"error_code=1[456]\b")

Topics = dict[str, list[int]]


class Broker(Protocol):
    """Whoever answers; None for a version that is not served."""

    def ask(self, request: Message, version: int) -> Any: ...

    def pause(self, for_ms: int) -> None:
        """Let time go on."""

    def renew(self, transactional_id: str, times: int) -> None:
        """Raise the epoch of a new id as often as so many InitProducerId do, quickly."""

    def restart(self) -> None:
        """Stop in order, and start again."""


class TransactionLines(ResponseLines):
    """Responses and records as lines; knows producer ids by name."""

    def __init__(self) -> None:
        super().__init__()
        self.producers: dict[int, str] = {}
        self.was_restarted = False

    def producer(self, producer_id: int) -> str:
        """The name of a producer id."""
        return "none" if producer_id < 0 else self.producers.get(producer_id, "nobody")

    def name_producer(self, producer_id: int, name: str) -> None:
        """A producer id was given out; a second one for the same name gets a number."""
        if producer_id >= 0 and producer_id not in self.producers:
            count = sum(known.partition("#")[0] == name for known in self.producers.values())
            self.producers[producer_id] = f"{name}#{count + 1}" if count else name

    def _struct(self, value: Struct, version: int, ordered: bool) -> str:
        if isinstance(value, PartitionProduceResponse):
            for name in _OF_ANY_PRODUCER:
                setattr(value, name, -1)
        return super()._struct(value, version, ordered)

    def _field(self, name: str, value: Any, version: int, ordered: bool) -> str:
        if name in _PRODUCER_IDS:
            return self.producer(value)
        if name in _TIMES:
            return "made"
        if name in _MADE_TIMES:
            return "made" if value >= 0 else "none"
        if name == "coordinator_epoch":
            return self._coordinator_epoch(value)
        if name == "transaction_status":
            return transactions.state_name(value)
        return super()._field(name, value, version, ordered)

    def _coordinator_epoch(self, epoch: int) -> str:
        """A restart raises it by one or by two."""
        return "later" if self.was_restarted and epoch > 0 else str(epoch)

    def batch(self, header: BatchHeader, view: memoryview) -> str:
        """A text for a batch: where it is, whose it is, what it is."""
        where = f"{header.base_offset}+{header.records_count}"
        if header.is_control:
            marker = control.read(view)
            assert marker is not None
            kind = (
                f"{'commit' if marker.is_commit else 'abort'} epoch {self._coordinator_epoch(marker.coordinator_epoch)}"
            )
        else:
            kind = "transactional" if header.is_transactional else "plain"
        whose = f"{self.producer(header.producer_id)}:{header.producer_epoch}:{header.base_sequence}"
        return f"{where} {whose} {kind}"

    def records(self, data: bytes | memoryview) -> Iterator[tuple[str, str]]:
        """A name and a text for each marker of an internal topic, and for each record.

        Without the sequence: Kafka's coordinators give every batch 0, and nobody checks it. Without offsets: there may
        be transactions of another version between.
        """
        for header, view in batch.split(memoryview(data)):
            producer = self.producer(header.producer_id)
            if header.is_control:
                yield producer, self.batch(header, view).partition(" ")[2]
                continue
            for record in batch.iterate(view):
                found = self._record(record)
                if found is not None:
                    name, text = found
                    yield name or producer, f"{producer}:{header.producer_epoch} {text}"

    def _record(self, record: Record) -> tuple[str, str] | None:
        """The transactional id and the text; None for a record of groups and members, which other scenarios compare."""
        version = int.from_bytes((record.value or b"\0\0")[:2], "big")
        assert record.key is not None
        if len(record.key) >= 2 and record.key[:2] == b"\0\0":
            decoded: Any = transactions.decode(record.key, record.value)
        else:
            decoded = offsets.decode(record.key, record.value)
        key, value = decoded
        if not isinstance(key, OffsetCommitKey | transactions.TransactionLogKey):
            return None
        name = key.transactional_id if isinstance(key, transactions.TransactionLogKey) else ""
        return name, f"{self.line(key, 0)} v{version} {'tombstone' if value is None else self.line(value, version)}"


class Play:
    """One run: what was said to each question.

    level      of transaction.version; -1 if there is no such feature
    unlogged   transactional ids whose records in the internal topics are left out
    """

    def __init__(self, broker: Broker, level: int) -> None:
        self.broker = broker
        self.level = level
        self.unlogged: set[str] = set()
        self.answers: dict[str, str] = {}
        self.told = TransactionLines()

    @property
    def has_new_protocol(self) -> bool:
        """Whether transactions of the new protocol can be stored.

        At level 0 Kafka refuses their records with UNSUPPORTED_VERSION, and the id is stuck from then on.
        """
        return self.level > 0

    def ask(self, label: str, request: Message, version: int) -> Any:
        """Put a question, and note what is said; None if the version is not served."""
        response = self.broker.ask(request, version)
        if isinstance(response, InitProducerIdResponse | EndTxnResponse):
            assert isinstance(request, InitProducerIdRequest | EndTxnRequest)
            self.told.name_producer(response.producer_id, request.transactional_id or "idempotent")
        if response is not None:
            name = f"{type(request).__name__.removesuffix('Request')} v{version}: {label}"
            self.note(name, self.told.line(response, version))
        return response

    def restart(self) -> None:
        self.broker.restart()
        self.told.was_restarted = True

    def note(self, name: str, answer: str) -> None:
        assert name not in self.answers, name
        self.answers[name] = answer

    def topics(self, **partitions: int) -> None:
        """New topics, once they can be written to."""
        request = CreateTopicsRequest([CreatableTopic(name, count, 1) for name, count in partitions.items()])
        for topic in self.broker.ask(request, 7).topics:
            assert not topic.error_code, topic
            self.told.ids[topic.topic_id] = topic.name
        wanted = [MetadataRequestTopic(name=name) for name in partitions]
        for _ in range(SETTLED_WITHIN_MS // _STEP_MS):
            rows = self.broker.ask(MetadataRequest(wanted), 12).topics
            if all(len(row.partitions) == partitions[row.name] for row in rows):
                break
            self.broker.pause(_STEP_MS)
        self.broker.pause(500)  # it takes Kafka's broker a moment to see that it leads a new partition

    def id_of(self, topic: str) -> bytes:
        return next((topic_id for topic_id, name in self.told.ids.items() if name == topic), b"the id of no one")

    def fetch(self, label: str, topic: str, index: int = 0, *, committed: bool = True) -> None:
        """All batches of a partition and the aborted transactions among them, in as many answers as it takes."""
        batches: list[str] = []
        aborted: set[tuple[str, int]] = set()
        offset = 0
        while True:
            response = self.broker.ask(_fetch(topic, index, 1 if committed else 0, offset), 11)
            ((row,),) = (each.partitions for each in response.responses)
            found = batch.split(memoryview(row.records or b""))
            batches += [self.told.batch(header, view) for header, view in found]
            aborted |= {
                (self.told.producer(one.producer_id), one.first_offset) for one in row.aborted_transactions or ()
            }
            if not found:
                break
            offset = found[-1][0].last_offset + 1
        ends = f"error {row.error_code} end {row.high_watermark} stable {row.last_stable_offset}"
        self.note(f"Fetch: {label}", f"{ends} aborted {sorted(aborted)} [{' '.join(batches)}]")

    def ends(self, label: str, topic: str, index: int = 0, *, version: int = 5) -> None:
        """The high watermark, and the last stable offset."""
        for level, kind in enumerate(("end", "stable")):
            partition = ListOffsetsPartition(index, timestamp=-1)
            request = ListOffsetsRequest(-1, level, [ListOffsetsTopic(topic, [partition])])
            self.ask(f"{label}, {kind}", request, version)

    def producers(self, label: str, topic: str, index: int = 0) -> None:
        """The producers of a partition."""
        self.ask(label, DescribeProducersRequest([TopicRequest(topic, [index])]), 0)

    def committed(self, label: str, group: str, topic: str, *, stable: bool = False, version: int = 8) -> None:
        """The committed offset of a group."""
        groups = [OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(topic, partition_indexes=[0, 1])])]
        self.ask(label, OffsetFetchRequest(groups=groups, require_stable=stable), version)

    def log(self, topic: str, index: int = 0) -> None:
        """The records and markers of an internal topic, those of each producer in the order of the log."""
        response = self.broker.ask(_fetch(topic, index, 0, 0), 11)
        ((row,),) = (each.partitions for each in response.responses)
        counts: defaultdict[str, int] = defaultdict(int)
        for name, text in self.told.records(row.records or b""):
            if _EPOCHS_BETWEEN.search(text) or name in self.unlogged:
                continue
            counts[name] += 1
            self.note(f"{topic} {name} {counts[name]:02}", text)


def _fetch(topic: str, index: int, isolation_level: int, offset: int) -> FetchRequest:
    partition = FetchPartition(index, fetch_offset=offset, partition_max_bytes=1 << 26)
    topics = [FetchTopic(topic, partitions=[partition])]
    return FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=isolation_level, topics=topics)


class Producer:
    """A transactional producer: what it knows, and what it asks for. Overrides are fields of the request."""

    def __init__(self, made: Play, name: str, timeout_ms: int = 60_000) -> None:
        self.made, self.name, self.timeout_ms = made, name, timeout_ms
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[tuple[str, int], int] = {}

    def ask(self, label: str, request: Message, version: int) -> Any:
        return self.made.ask(f"{self.name}: {label}", request, version)

    def identity(self, overrides: dict[str, Any]) -> dict[str, Any]:
        """The fields that name it in a request."""
        known = {"transactional_id": self.name, "producer_id": self.producer_id, "producer_epoch": self.epoch}
        return {**known, **overrides}

    def init(self, label: str = "init", version: int = 4, **overrides: Any) -> None:
        """InitProducerId; a given id and epoch become its own. New sequences begin."""
        fields = {"transactional_id": self.name, "transaction_timeout_ms": self.timeout_ms, **overrides}
        answer = self.ask(label, InitProducerIdRequest(**fields), version)
        if answer is not None and answer.error_code == ErrorCode.NONE:
            self.adopt(answer.producer_id, answer.producer_epoch)

    def adopt(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch, self.sequences = producer_id, epoch, {}

    def add(self, label: str, topics: Topics, version: int = 3, **overrides: Any) -> None:
        """AddPartitionsToTxn as clients send it."""
        rows = [AddPartitionsToTxnTopic(name, indexes) for name, indexes in topics.items()]
        fields = {f"v3_and_below_{name}": value for name, value in self.identity(overrides).items()}
        self.ask(label, AddPartitionsToTxnRequest(v3_and_below_topics=rows, **fields), version)

    def add_group(self, label: str, group: str, version: int = 3, **overrides: Any) -> None:
        """AddOffsetsToTxn."""
        self.ask(label, AddOffsetsToTxnRequest(**self.identity(overrides), group_id=group), version)

    def commit_offsets(
        self, label: str, group: str, rows: dict[str, dict[int, int]], version: int = 3, **overrides: Any
    ) -> None:
        """TxnOffsetCommit: offsets by partition by topic."""
        topics = [
            TxnOffsetCommitRequestTopic(
                topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(*place, committed_metadata="m") for place in places.items()
                ],
            )
            for topic, places in rows.items()
        ]
        self.ask(label, TxnOffsetCommitRequest(**self.identity(overrides), group_id=group, topics=topics), version)

    def send(self, label: str, topic: str, index: int = 0, *, version: int = 9, **overrides: Any) -> None:
        """Produce one batch of two records, with the next sequence, which an error does not use up."""
        identity = self.identity(overrides)
        sequence = self.sequences.get((topic, index), 0)
        built = batch.build(
            [Record(timestamp=TIMESTAMP_MS, value=b"v")] * 2,
            producer_id=identity["producer_id"],
            producer_epoch=identity["producer_epoch"],
            base_sequence=overrides.get("sequence", sequence),
            is_transactional=overrides.get("is_transactional", True),
        )
        rows = [TopicProduceData(topic, self.made.id_of(topic), [PartitionProduceData(index, memoryview(built))])]
        answer = self.ask(label, ProduceRequest(identity["transactional_id"], -1, 30_000, rows), version)
        if answer is not None and answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE:
            self.sequences[topic, index] = overrides.get("sequence", sequence) + 2

    def end(self, label: str, *, commit: bool = True, version: int = 3, **overrides: Any) -> None:
        """EndTxn, until the markers are written; the id and epoch of the next transaction become its own (v5)."""
        request = EndTxnRequest(**self.identity(overrides), committed=commit)
        answer = self.ask(label, request, version)
        if answer is not None and answer.error_code == ErrorCode.NONE and version >= 5:
            self.adopt(answer.producer_id, answer.producer_epoch)
        self.settle()

    def state(self, label: str) -> None:
        """DescribeTransactions."""
        self.ask(label, DescribeTransactionsRequest([self.name]), 0)

    def settle(self, *, until: str | None = None) -> None:
        """Wait until no marker is outstanding, or for a state."""
        for _ in range(SETTLED_WITHIN_MS // _STEP_MS):
            (row,) = self.made.broker.ask(DescribeTransactionsRequest([self.name]), 0).transaction_states
            if row.transaction_state == until or (until is None and row.transaction_state not in PREPARED):
                return
            self.made.broker.pause(_STEP_MS)
        raise TimeoutError(f"{self.name} stays {row.transaction_state}")


class Remote:
    """A broker behind a port of this machine. It makes its coordinators when it is first asked for one."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port), 30.0)
        self._peer = ClientConnection("transactions")
        self.ask(ApiVersionsRequest("headgate", "1"), 3)

    def restart(self) -> None:
        """Ask on standard error for a restart by hand, and wait for it."""
        sys.stderr.write(f"restart the broker at port {self._port}\n")
        sys.stderr.flush()
        self._socket.settimeout(RESTARTED_WITHIN_S)
        with suppress(ConnectionError):
            assert not self._socket.recv(1), "the broker closes the connection when it stops"
        self._socket.close()
        for _ in range(RESTARTED_WITHIN_S):
            time.sleep(1)
            with suppress(ConnectionError):
                self._connect()
                break
        self.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["first"]), 4)
        time.sleep(5)  # until it leads every partition again

    def pause(self, for_ms: int) -> None:
        time.sleep(for_ms / 1000)

    def renew(self, transactional_id: str, times: int) -> None:
        request = InitProducerIdRequest(transactional_id, 60_000)
        while times:
            at_once = min(times, 500)
            self._socket.sendall(b"".join(self._peer.request(request, 4) for _ in range(at_once)))
            answered = 0
            while answered < at_once:
                for _, answer in self._peer.receive(self._socket.recv(1 << 20)):
                    assert not answer.error_code, answer
                    answered += 1
            times -= at_once

    def ask(self, request: Message, version: int) -> Any:
        served = self._peer.served_versions.get(request.api_key)
        if self._peer.served_versions and (served is None or version not in served):
            return None
        for _ in range(300):
            self._socket.sendall(self._peer.request(request, version))
            answers: list[tuple[Message, Any]] = []
            while not answers:
                received = self._socket.recv(1 << 20)
                assert received, f"the broker hung up on {request!r}, version {version}"
                answers = self._peer.receive(received)
            response = answers[0][1]
            if not _LOADING.search(repr(response)):
                return response
            time.sleep(0.1)
        raise TimeoutError(f"there is no coordinator yet for {request}")
