"""`headgate spark sample`: a topic of made-up orders, to try everything else with.

An order is JSON: {"order": 17, "customer": "customer-042", "item": "tea", "amount": 12.5, "state": "paid"}. Its key is
the customer, whose orders are in one partition. The same seed makes the same orders.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.records import batch, compression
from headgate.protocol.records.batch import Record
from headgate.protocol.security.client_security import ClientSecurity
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import PLAINTEXT, Client, ClientError
from headgate.tools.client.cluster import Answers, Cluster
from headgate.tools.output import CommandResult, Row, common_options, format_table, print_result

PARTITIONS: Final = 4
SCHEMA: Final = "`order` BIGINT, customer STRING, item STRING, amount DOUBLE, state STRING"
_COLUMNS: Final = ("order", "customer", "item", "amount", "state")
_SHOWN: Final = 10
_CUSTOMERS: Final = 500
_ITEMS: Final = ("tea", "coffee", "bread", "rice", "salt")
_STATES: Final = ("new", "paid", "sent", "returned")
_BETWEEN_MS: Final = 10
# The newest version that names topics, and the first with batches of magic 2
_NEWEST_BY_NAME, _OLDEST = 12, 3


def orders(count: int, seed: int, now_ms: int, partitions: int = PARTITIONS) -> Iterator[tuple[int, Record]]:
    """So many orders, each with its partition; the last one was made now. `partitions`: of the topic."""
    chance = random.Random(seed)
    for number in range(count):
        customer = chance.randrange(_CUSTOMERS)
        order = {
            "order": number,
            "customer": f"customer-{customer:03}",
            "item": chance.choice(_ITEMS),
            "amount": chance.randrange(100, 10_000) / 100,
            "state": chance.choice(_STATES),
        }
        at_ms = now_ms - (count - 1 - number) * _BETWEEN_MS
        key = str(order["customer"]).encode()
        yield customer % partitions, Record(-1, at_ms, key, json.dumps(order).encode())


def produce(cluster: Cluster, topic: str, records: Iterable[tuple[int, Record]], at_once: int = 10_000) -> list[str]:
    """Append the records, many at once; sentences about what failed."""
    by_partition = defaultdict[int, list[Record]](list)
    for number, (partition, record) in enumerate(records, 1):
        by_partition[partition].append(record)
        if number % at_once == 0:
            failures = _send(cluster, topic, by_partition)
            if failures:
                return failures
            by_partition.clear()
    return _send(cluster, topic, by_partition)


def _send(cluster: Cluster, topic: str, records: dict[int, list[Record]]) -> list[str]:
    batches = {
        TopicPartition(topic, number): bytes(batch.build(made, base_offset=0, compression=compression.ZSTD))
        for number, made in records.items()
    }

    def ask(client: Client, partitions: list[TopicPartition]) -> Answers[TopicPartition, int]:
        data = [
            PartitionProduceData(index=partition.number, records=memoryview(batches[partition]))
            for partition in partitions
        ]
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(topic, partition_data=data)])
        version = client.version(ProduceRequest, newest=_NEWEST_BY_NAME, oldest=_OLDEST)
        for row in client.ask(request, version).responses:
            for partition in row.partition_responses:
                code, message = partition.error_code, partition.error_message
                yield (
                    TopicPartition(topic, partition.index),
                    Failure.of(code, message) if code else partition.base_offset,
                )

    _, failed = cluster.ask_leaders(batches, ask)
    return [f"{partition}: {failure.text}" for partition, failure in failed.items()]


def create_topic(bootstrap: str, topic: str, timeout_s: float, security: ClientSecurity = PLAINTEXT) -> list[str]:
    """Create the topic if it does not exist; sentences about a failure."""
    with Client(bootstrap, timeout_s=timeout_s, security=security) as client:
        wanted = CreatableTopic(name=topic, num_partitions=PARTITIONS, replication_factor=1)
        answer = client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=int(timeout_s * 1000)))
    allowed = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    return [
        f"{topic}: {Failure.of(row.error_code, row.error_message).text}"
        for row in answer.topics
        if row.error_code not in allowed
    ]


def count_partitions(cluster: Cluster, topic: str) -> int:
    """Of a topic that may have been there before. Raises ClientError."""
    found = sum(len(row.partitions) for row in cluster.refresh([topic]).topics)
    return found or PARTITIONS  # a new one, which this broker does not know yet


# ------------------------------------------------------------------------------------------------------------- command


def main(arguments: Sequence[str]) -> int:
    """Run `headgate spark sample <arguments>`; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="headgate spark sample",
        parents=[common_options()],
        description=f"Append made-up orders to a topic, as JSON: {SCHEMA}.",
    )
    parser.add_argument("topic", nargs="?", default="orders", help="default: orders")
    parser.add_argument("--count", type=_count, default=100_000, metavar="number", help="default: 100000")
    parser.add_argument("--seed", type=int, default=1, metavar="number", help="default: 1")
    parser.add_argument("--schema", action="store_true", help="print the columns of an order for `load`, and end")
    parser.add_argument("--show", metavar="folder", help="show the first orders in a folder of `load`, and end")
    options = parser.parse_args(arguments)
    if options.schema:
        print(SCHEMA)
        return 0
    try:
        result = show(options.show) if options.show else run(options, int(time.time() * 1000))
    except (ClientError, OSError, ValueError) as error:
        result = CommandResult(failures=[str(error)])
    return print_result("spark sample", result, options, format_table)


def run(options: argparse.Namespace, now_ms: int) -> CommandResult:
    """Raises ClientError."""
    failures = create_topic(options.bootstrap_server, options.topic, options.timeout, options.security)
    if not failures:
        with Cluster(options.bootstrap_server, timeout_s=options.timeout, security=options.security) as cluster:
            made = orders(options.count, options.seed, now_ms, count_partitions(cluster, options.topic))
            failures = produce(cluster, options.topic, made)
    row: Row = {"topic": options.topic, "orders": options.count}
    return CommandResult([] if failures else [row], failures)


def show(folder: str) -> CommandResult:
    """The first orders in a folder of `headgate spark load --format json`. Raises OSError, ValueError."""
    from pyarrow import dataset

    value = dataset.field("value")
    columns = {name: dataset.field(name) for name in ("partition", "offset", "timestamp")}
    columns |= {name: dataset.field("value", name) for name in _COLUMNS}
    rows = dataset.dataset(folder, format="parquet")
    found = rows.head(_SHOWN, columns=columns, filter=value.is_valid()).to_pylist()
    note = f"the first {len(found)} of {rows.count_rows():,} rows of {folder}"
    return CommandResult([{**row, "timestamp": f"{row['timestamp']:%Y-%m-%d %H:%M:%S}"} for row in found], notes=[note])


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 100_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of orders")
    return int(text)
