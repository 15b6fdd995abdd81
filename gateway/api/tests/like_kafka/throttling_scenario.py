"""Requests of clients beyond their quotas; `test_throttling_like_kafka` compares the answers with Kafka's.

    play(connect)       # `connect(client_id)` gives a broker: `ask(request, version)` gives its response
    python -m headgate.gateway.api.tests.like_kafka.throttling_scenario PORT > throttling_of_kafka.txt

The second line records the answers of an Apache Kafka 4.1.2 on this machine that is new, as they stand in that file.
Throttle times are in whole seconds, rounded up: each client is throttled once, and time passes between requests.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from headgate.gateway.api.tests.like_kafka.admin_scenario import Remote
from headgate.gateway.tests.scenario import Broker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from headgate.protocol.messages.describe_client_quotas import EntityData
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.schema import Message

Connect = Callable[[str], Broker]
SETTLED_S = 1.0


class Play:
    """One run: the answers by the names of their questions."""

    def __init__(self, connect: Connect) -> None:
        self.connect = connect
        self.answers: dict[str, str] = {}

    def ask(self, broker: Broker, label: str, request: Message, version: int) -> None:
        response = broker.ask(request, version)
        throttle_s = -(-response.throttle_time_ms // 1_000)
        name = f"{type(request).__name__.removesuffix('Request')} v{version}: {label}"
        assert name not in self.answers, name
        self.answers[name] = f"{throttle_s} s, {' '.join(sorted(_rows(response))) or 'empty'}"


def _rows(response: Any) -> list[str]:
    """The parts of a response, each with its error."""
    rows: list[str] = []
    for field in ("topics", "results", "responses"):
        for row in getattr(response, field, ()):
            partitions = getattr(row, "partition_responses", getattr(row, "partitions", None))
            if partitions is None:
                name = "" if isinstance(row, DeletableTopicResult) else f"{row.name}="  # Kafka deletes in any order
                rows.append(f"{name}{ErrorCode(row.error_code).name}")
            for partition in partitions or ():
                size = len(getattr(partition, "records", None) or b"")
                rows.append(f"{ErrorCode(partition.error_code).name}{' with records' if size else ''}")
    return rows


def topics(**counts: int) -> CreateTopicsRequest:
    names = {name.replace("__", " "): count for name, count in counts.items()}
    return CreateTopicsRequest([CreatableTopic(name, count, 1) for name, count in names.items()])


def produced(size: int) -> ProduceRequest:
    records = bytes(batch.build([Record(timestamp=1_700_000_000_000, value=b"x" * size)]))
    return ProduceRequest(None, -1, 1_000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])])


def fetched(offset: int = 0, session_epoch: int = -1, max_wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=3_100)
    topics = [FetchTopic("t", partitions=[partition])]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics, session_epoch=session_epoch)


def play(connect: Connect) -> dict[str, str]:
    """Ask everything, in this order."""
    made, admin = Play(connect), connect("")
    admin.ask(topics(t=1, u=2, v=2), 7)
    for _ in range(30):
        assert admin.ask(produced(3_000), 9) is not None
    rates = {"producer_byte_rate": 1_000.0, "consumer_byte_rate": 1_000.0, "controller_mutation_rate": 1.0}
    quotas = [OpData(key, value, False) for key, value in rates.items()]
    admin.ask(AlterClientQuotasRequest([EntryData([EntityData("client-id", None)], quotas)]), 1)
    _mutations(made)
    _bytes(made)
    return made.answers


def _mutations(made: Play) -> None:
    for version in (4, 5, 6, 7):
        client, name = made.connect(f"creator {version}"), f"c{version}"
        request = topics(**{f"{name}a": 13, f"{name}__": 5, f"{name}b": 1, f"{name}c": 1})
        made.ask(client, "beyond the burst", request, version)
    for version in (4, 6):
        request = topics(**{f"d{version}a": 14, f"d{version}b": 1})
        request.validate_only = True
        made.ask(made.connect(f"checker {version}"), "validated only", request, version)
    for version in (2, 3):
        rows = [CreatePartitionsTopic(name, count, None) for name, count in (("u", 16), ("none", 3), ("v", 3))]
        growth = CreatePartitionsRequest(rows, 10_000, validate_only=True)
        made.ask(made.connect(f"grower {version}"), "beyond the burst", growth, version)
    for version in (4, 5, 6):
        client, names = made.connect(f"deleter {version}"), [f"e{version}{letter}" for letter in "ab"]
        made.connect("").ask(topics(**dict.fromkeys(names, 14)), 7)
        states = [DeleteTopicState(name=name) for name in names]
        deletion = DeleteTopicsRequest(states) if version >= 6 else DeleteTopicsRequest(topic_names=names)
        deletion.timeout_ms = 10_000
        made.ask(client, "beyond the burst", deletion, version)


def _bytes(made: Play) -> None:
    producer = made.connect("producer")
    made.ask(producer, "within the windows", produced(9_000), 9)
    made.ask(producer, "beyond the windows", produced(3_000), 8)
    made.ask(made.connect("large"), "at once", produced(20_000), 9)
    for version in (4, 11):
        consumer = made.connect(f"consumer {version}")
        for number in range(3):
            made.ask(consumer, f"within the windows, {number}", fetched(), version)
        made.ask(consumer, "beyond the windows", fetched(), version)
    made.ask(made.connect("full"), "a new session", fetched(session_epoch=0), 11)
    poor = made.connect("poor")
    for _ in range(3):
        poor.ask(fetched(), 11)
    made.ask(poor, "a new session beyond the windows", fetched(session_epoch=0), 11)


class Named(Remote):
    """A connection with a client id."""

    def __init__(self, port: int, client_id: str) -> None:
        self.client_id = client_id
        super().__init__(port)
        self._peer.client_id = client_id


if __name__ == "__main__":
    port = int(sys.argv[1])
    for name, answer in play(lambda client_id: Named(port, client_id)).items():
        sys.stdout.write(f"{name}\t{answer}\n")
