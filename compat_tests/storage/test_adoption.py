"""Data directories of Apache Kafka 2.8, 3.9 and 4.1, written by the real one, stopped, and adopted.

Kafka 2.8 still stores message formats 0 and 1 where a topic asks for them (with `log.message.format.version` in
`__consumer_offsets` too), and keeps topics' configs in ZooKeeper; the others have them in `__cluster_metadata-0`.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from compat_tests.families.confluent import Confluent, send
from compat_tests.families.family import FromStart, FromTime
from compat_tests.harness.apache_kafka import QUICK_START, ApacheKafka, KafkaAndZooKeeper, missing
from compat_tests.harness.broker import TARGET, Broker, HeadgateBroker, installed_command
from compat_tests.harness.records import Sent
from compat_tests.harness.topics import create_topics, set_config
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import commit
from compat_tests.matrix.carried import assert_carried, records_of
from compat_tests.matrix.client import BEFORE_HEADERS, BEFORE_TIMES, MODERN, Abilities, Client
from compat_tests.matrix.rows import ROWS

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="it is Headgate that adopts")

OF_EACH: Final = 200
PARTITIONS: Final = 2
TRANSACTED: Final = "transacted"
TRANSACTIONS: Final = ((True, [b"1", b"2"]), (False, [b"3", b"4", b"5"]), (True, [b"6"]))
METADATA: Final = "__cluster_metadata-0"
GROUP: Final = "adopted-group"
COMMITTED: Final = 7
# 2.8 rolls and indexes as often as that, so that there is something to find
SMALL: Final = {"segment.bytes": "6000", "index.interval.bytes": "512"}
# The first is the least that Kafka 4.1 takes
CONFIGS: Final = {"segment.bytes": "1048576", "retention.ms": "86400000000"}
QUICK: Final = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
FEW: Final = {**QUICK, "transaction.state.log.num.partitions": "2"}
# Of message formats 0, 1 and 2, and Java's of today, which looks most closely at what it is sent
READERS: Final = ("kafka-python 1.4.7 at 0.9", "kafka-python 1.4.7 at 0.10.2", "librdkafka 0.11.6", "java 4.4.0")


class Written(NamedTuple):
    """What is in a topic, and what its writer, or its message format, can express."""

    records: list[Sent]
    abilities: Abilities


class Directory(NamedTuple):
    """A stopped Kafka's, and the topics that it had. `killed`: the same as a SIGKILL would have left it."""

    path: Path
    killed: Path
    cluster_id: str
    topics: dict[str, Written]
    ids: dict[str, str]
    port: int = 0
    producer: Producer | None = None
    """One that began with Kafka, and knows nothing of its end."""


def fill(kafka: ApacheKafka, wanted: Mapping[str, tuple[Abilities, Mapping[str, str]]]) -> Directory:
    """Make topics, write to each with every codec, commit offsets, stop."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    create_topics(kafka.bootstrap, {name: configs for name, (_, configs) in wanted.items()}, PARTITIONS)
    # Transactions need format 2, whatever the broker's own is
    version = {"message.format.version": "2.8"} if kafka.jar_set == "broker28" else {}
    create_topics(kafka.bootstrap, {TRANSACTED: version})
    wait_for_leaders(kafka.bootstrap, wanted)
    topics = {}
    for name, (abilities, _) in wanted.items():
        topics[name] = Written(list[Sent](), abilities)
        for seed, codec in enumerate(abilities.writes):
            records = records_of(abilities, OF_EACH, seed)
            topics[name].records.extend(records)
            produce(kafka.bootstrap, name, records, codec)
    transact(kafka.bootstrap)
    commit(kafka.bootstrap, GROUP, next(iter(wanted)), {0: COMMITTED})
    described = admin.describe_cluster().result(20)
    ids = {}
    if kafka.jar_set != "broker28":
        from confluent_kafka import TopicCollection

        found = admin.describe_topics(TopicCollection(list(wanted)))
        ids = {name: str(future.result(20).topic_id) for name, future in found.items()}
    return Directory(kafka.logs, kafka.directory / "killed" / "logs", described.cluster_id, topics, ids)


def copy_alive(directory: Directory) -> None:
    """Copy what a SIGKILL would leave: nothing happens in there at present."""
    assert_refused(directory.path, "is in use", "--adopt")
    directory.killed.parent.mkdir()
    # Indexes are 10 MB each, nearly all of it holes
    subprocess.run(["cp", "-a", "--sparse=always", directory.path, directory.killed], check=True)


def produce(bootstrap: str, topic: str, records: Sequence[Sent], codec: str) -> None:
    """Without an id of the producer, which older formats have no place for."""
    settings = {"compression.type": codec, "linger.ms": 20, "batch.size": 2000, "max.in.flight": 1}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    failures: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    for record in records:
        send(producer, topic, record, delivered)
    assert producer.flush(60) == 0
    assert not failures, failures[:3]


def idempotent(bootstrap: str) -> Producer:
    """A producer whose requests and sequences are numbered."""
    settings = {"enable.idempotence": True, "linger.ms": 1, "reconnect.backoff.max.ms": 300, "log_level": 0}
    return Producer({"bootstrap.servers": bootstrap, **settings})


def go_on(directory: Directory, seed: int) -> list[Sent]:
    """More records of that producer."""
    producer, records = directory.producer, records_of(MODERN, OF_EACH, seed)
    assert producer is not None
    failures: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    for record in records:
        send(producer, "plain", record, delivered)
    assert producer.flush(60) == 0
    assert not failures, failures[:3]
    return records


def transact(bootstrap: str) -> None:
    """A transaction that is committed, one that is aborted, and one more."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "adopted", "transaction.timeout.ms": 30_000}
    )
    producer.init_transactions(30)
    for is_committed, values in TRANSACTIONS:
        producer.begin_transaction()
        for value in values:
            producer.produce(TRANSACTED, value, partition=0)
        assert producer.flush(60) == 0
        (producer.commit_transaction if is_committed else producer.abort_transaction)(30)


def wait_for_leaders(bootstrap: str, topics: Iterable[str]) -> None:
    """Else what is sent first comes again behind what is sent next: old formats know no sequences."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "-"})

    def is_led(partition: TopicPartition) -> bool:
        try:
            return consumer.get_watermark_offsets(partition, timeout=60) == (0, 0)
        except KafkaException:
            return False

    for name in topics:
        for index in range(PARTITIONS):
            until(partial(is_led, TopicPartition(name, index)), f"a leader of {name}-{index}")
    consumer.close()


@pytest.fixture(scope="module")
def of_kafka28(tmp_path_factory: pytest.TempPathFactory) -> Directory:
    """Formats 0, 1 and 2, one topic that changed from 1 to 2, and old messages among the committed offsets."""
    if reason := missing("broker28"):
        pytest.skip(reason)
    settings = {**FEW, "log.message.format.version": "0.10.2"}
    more: dict[str, Any] = {"heap": "512m", "options": QUICK_START}
    with KafkaAndZooKeeper(settings, directory=tmp_path_factory.mktemp("kafka28"), **more) as kafka:
        wanted = {
            "zero": (BEFORE_TIMES, {**SMALL, "message.format.version": "0.8.2"}),
            "zero-9": (BEFORE_TIMES, {"message.format.version": "0.9.0"}),
            "one": (BEFORE_HEADERS, {**SMALL, "message.format.version": "0.10.0"}),
            "one-append-time": (
                BEFORE_HEADERS, {"message.format.version": "0.10.2", "message.timestamp.type": "LogAppendTime"}
            ),
            "changing": (BEFORE_HEADERS, {"message.format.version": "0.10.2"}),
            "two": (MODERN, {**SMALL, "message.format.version": "2.8"}),
        }  # fmt: skip
        directory = fill(kafka, wanted)
        set_config(kafka.bootstrap, "changing", "message.format.version", "2.8")
        records = records_of(BEFORE_HEADERS, OF_EACH, 9)
        directory.topics["changing"].records.extend(records)
        produce(kafka.bootstrap, "changing", records, "lz4")
        copy_alive(directory)
    assert_read_by_command(directory)
    return directory


@pytest.fixture(scope="module", params=["broker39", "broker"])
def of_kraft(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Directory:
    """Kafka 3.9 and 4.1; two kinds of configs, one of which means nothing here."""
    if reason := missing(request.param):
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp(request.param)
    with ApacheKafka(FEW, heap="512m", jar_set=request.param, directory=directory, options=QUICK_START) as kafka:
        filled = fill(kafka, {"plain": (MODERN, {}), "small": (MODERN, CONFIGS)})
        filled = filled._replace(port=kafka.port, producer=idempotent(kafka.bootstrap))
        filled.topics["plain"].records.extend(go_on(filled, 40))
        copy_alive(filled)
    assert_read_by_command(filled)
    return filled


def assert_read_by_command(directory: Directory) -> None:
    """`headgate log` reads what Kafka left, stopped or killed: nothing is wrong, every record is there."""
    for path in (directory.path, directory.killed):
        assert log_command("verify", path)
        rows = log_command("dump", path)
        found = Counter(row["topic"] for row in rows if not row["control"])
        assert {topic: found[topic] for topic in directory.topics} == {
            topic: len(records) for topic, (records, _) in directory.topics.items()
        }
        offsets = [row for row in rows if row["topic"] == "__consumer_offsets" and row["value"]]
        assert COMMITTED in {row["value"]["offset"] for row in offsets if row["key"].get("topic")}
        states = [row["value"]["transaction_status"] for row in rows if row["topic"] == "__transaction_state"]
        assert states[-1] == "CompleteCommit"


def log_command(name: str, *arguments: object) -> list[Any]:
    """What `headgate log` says of what is not wrong."""
    typed = [*installed_command(), "log", name, *map(str, arguments)]
    done = subprocess.run(typed, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def magics(path: Path) -> set[int]:
    """The message formats in a partition's segments: each batch or message is an offset, a size, and so many bytes."""
    found = set()
    for log in path.glob("*.log"):
        data, position = log.read_bytes(), 0
        while position < len(data):
            found.add(data[position + 16])
            position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return found


def tree(path: Path) -> dict[str, tuple[int, int]]:
    """Every name with its size and the time of its last change."""
    return {
        str(one.relative_to(path)): (one.stat().st_size, one.stat().st_mtime_ns)
        for one in sorted([path, *path.rglob("*")])
    }


def assert_refused(path: Path, word: str, *arguments: str) -> None:
    """In one sentence."""
    broker = HeadgateBroker(path.parent / "refused", QUICK, path, arguments)
    done = subprocess.run(broker.command(), capture_output=True, text=True, timeout=30, check=False)
    lines = done.stderr.strip().splitlines()
    assert (done.returncode, len(lines)) == (1, 1), done.stderr
    assert word in lines[0]


def assert_not_touched(path: Path) -> None:
    """Without --adopt."""
    before = tree(path)
    assert_refused(path, "--adopt")
    assert tree(path) == before


def adopted(path: Path, port: int = 0) -> HeadgateBroker:
    broker = HeadgateBroker(path.parent / "headgate", QUICK, path, ["--adopt"])
    broker.port = port
    broker.start()
    return broker


def assert_all_read(bootstrap: str, topics: Mapping[str, Written]) -> None:
    for name, (records, abilities) in topics.items():
        counts = {index: sum(record.partition == index for record in records) for index in range(PARTITIONS)}
        found = Confluent().consume(bootstrap, name, FromStart(), counts)
        wanted = records
        if name == "one-append-time":
            found = [record._replace(timestamp_ms=0) for record in found]
            wanted = [record._replace(timestamp_ms=0) for record in records]
        assert_carried(wanted, found, abilities, MODERN, 0)


def committed(bootstrap: str, topic: str) -> int:
    asked = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(topic, 0)])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (answer,) = admin.list_consumer_group_offsets([asked]).values()
    return int(answer.result(20).topic_partitions[0].offset)


def assert_transactions(bootstrap: str) -> None:
    """Who reads committed records sees what was committed, and ends behind the last marker; the other one sees all."""
    for isolation, expected in (
        ("read_committed", [value for is_committed, values in TRANSACTIONS if is_committed for value in values]),
        ("read_uncommitted", [value for _, values in TRANSACTIONS for value in values]),
    ):
        settings = {"group.id": "-", "isolation.level": isolation, "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
        consumer.assign([TopicPartition(TRANSACTED, 0, 0)])
        found: list[bytes | None] = []
        while (message := consumer.poll(20)) is not None and not message.error():
            found.append(message.value())
        consumer.close()
        assert message is not None, found
        assert (found, message.offset()) == (expected, 9)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    assert "__transaction_state" in admin.list_topics(timeout=60).topics


@pytest.fixture(scope="module")
def old_formats(of_kafka28: Directory) -> Iterator[Broker]:
    formats = {
        "zero-0": {0},
        "zero-9-1": {0},
        "one-0": {1},
        "one-append-time-0": {1},
        "changing-1": {1, 2},
        "two-0": {2},
    }
    assert {name: magics(of_kafka28.path / name) for name in formats} == formats
    assert magics(of_kafka28.path / "__consumer_offsets-0") | magics(of_kafka28.path / "__consumer_offsets-1") == {1}
    assert len(list((of_kafka28.path / "zero-0").glob("*.log"))) > 3
    assert_not_touched(of_kafka28.path)
    broker = adopted(of_kafka28.path)
    yield broker
    broker.stop()


def test_old_formats_are_read_completely(of_kafka28: Directory, old_formats: Broker) -> None:
    assert_all_read(old_formats.bootstrap, of_kafka28.topics)
    assert_transactions(old_formats.bootstrap)
    assert committed(old_formats.bootstrap, next(iter(of_kafka28.topics))) == COMMITTED
    said = "\n".join(old_formats.error_lines())
    for topic in of_kafka28.topics:
        assert f"{topic}: its configs are unknown" in said


@pytest.mark.parametrize("name", READERS)
def test_clients_of_all_ages_read_old_formats(of_kafka28: Directory, old_formats: Broker, name: str) -> None:
    client = client_named(name)
    for topic in ("zero", "one", "changing"):
        records, abilities = of_kafka28.topics[topic]
        found = client.read(old_formats.bootstrap, topic, len(records))
        assert_carried(records, found, abilities, client.abilities, 0)


def client_named(name: str) -> Client:
    (found,) = [row for row in ROWS if row.name == name]
    found.command()
    return found


def test_times_are_found_in_old_formats(of_kafka28: Directory, old_formats: Broker) -> None:
    for topic in ("one", "changing"):
        records = [record for record in of_kafka28.topics[topic].records if record.partition == 0]
        wanted = records[len(records) // 2].timestamp_ms
        assert wanted is not None
        first = next(index for index, record in enumerate(records) if (record.timestamp_ms or 0) >= wanted)
        found = Confluent().consume(old_formats.bootstrap, topic, FromTime(wanted), {0: 1})
        assert (found[0].offset, found[0].value) == (first, records[first].value)


def test_topics_ids_and_configs_of_kraft(of_kraft: Directory) -> None:
    assert_not_touched(of_kraft.path)
    metadata = tree(of_kraft.path / METADATA)
    broker = adopted(of_kraft.path, of_kraft.port)
    try:
        assert_all_read(broker.bootstrap, of_kraft.topics)
        assert_transactions(broker.bootstrap)
        assert committed(broker.bootstrap, "plain") == COMMITTED
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        cluster = admin.describe_cluster().result(20)
        assert (cluster.cluster_id, [node.id for node in cluster.nodes]) == (of_kraft.cluster_id, [1])
        (configs,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "small")]).values()
        told = {name: entry.value for name, entry in configs.result(20).items()}
        assert {name: told[name] for name in CONFIGS} == CONFIGS
        # Its sequences go on where Kafka's snapshot ends
        plain = Written([*of_kraft.topics["plain"].records, *go_on(of_kraft, 50)], MODERN)
        broker.arguments = ()
        broker.restart()
        assert_all_read(broker.bootstrap, {**of_kraft.topics, "plain": plain})
        from confluent_kafka import TopicCollection

        for name, future in admin.describe_topics(TopicCollection(list(of_kraft.ids))).items():
            assert str(future.result(20).topic_id) == of_kraft.ids[name]
        assert tree(of_kraft.path / METADATA) == metadata
        assert not [line for line in broker.error_lines() if "ERROR" in line]
    finally:
        broker.stop()


def test_what_a_killed_kafka_left_in_old_formats(of_kafka28: Directory) -> None:
    """Writing goes on behind it. Then we are killed: what recovery makes of both is the same."""
    with killed_and_adopted(of_kafka28) as broker:
        topics = dict(of_kafka28.topics)
        produce(broker.bootstrap, "zero-9", topics.pop("zero-9").records, "gzip")
        before, abilities = topics["changing"]
        records = records_of(abilities, OF_EACH, 20)
        produce(broker.bootstrap, "changing", records, "gzip")
        topics["changing"] = Written([*before, *records], abilities)
        broker.kill()
        broker.arguments = ()
        broker.start()
        assert_all_read(broker.bootstrap, topics)
        assert committed(broker.bootstrap, next(iter(topics))) == COMMITTED


def test_what_a_killed_kafka_left(of_kraft: Directory) -> None:
    with killed_and_adopted(of_kraft):
        pass


@contextlib.contextmanager
def killed_and_adopted(directory: Directory) -> Iterator[HeadgateBroker]:
    """Its indexes end in zeros, and nothing says up to where all is on the disk: everything is scanned."""
    broker = adopted(directory.killed)
    try:
        assert_all_read(broker.bootstrap, directory.topics)
        assert_transactions(broker.bootstrap)
        assert committed(broker.bootstrap, next(iter(directory.topics))) == COMMITTED
        yield broker
        assert not [line for line in broker.error_lines() if "ERROR" in line]
    finally:
        broker.stop()


def test_another_node_id_is_refused(of_kraft: Directory, tmp_path: Path) -> None:
    """The directory is adopted by now or not: it says whose it is in either case."""
    broker = HeadgateBroker(tmp_path, {**QUICK, "node.id": "5"}, of_kraft.path, ["--adopt"])
    done = subprocess.run(broker.command(), capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "belongs to node.id=1, not 5" in done.stderr
