"""Kafka's own command-line tools, 4.1: what an operator does with them, and what they print."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.proxy import Proxy
from compat_tests.harness.waiting import until
from compat_tests.matrix import usage
from compat_tests.tools import kafka_tools
from compat_tests.tools.hanging import PRODUCER_EPOCH, VERIFICATION_OFF, leave_hanging
from compat_tests.tools.kafka_tools import Tools

NODE = {"headgate": "0"}.get(TARGET, "1")
TOO_LARGE = 10  # MESSAGE_TOO_LARGE


@pytest.fixture(scope="module")
def in_front() -> Iterator[Proxy]:
    """Of the broker, to note what the tools ask."""
    with Proxy() as proxy:
        yield proxy
        if usage.RECORDS and TARGET == "headgate":
            usage.keep(proxy.used)


@pytest.fixture(scope="module")
def own_broker(in_front: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of which the settings are changed."""
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        **VERIFICATION_OFF,
        "advertised.listeners": f"PLAINTEXT://{in_front.bootstrap}",
    }
    with running(tmp_path_factory.mktemp("tools"), settings) as broker:
        in_front.target = broker.bootstrap
        yield broker


@pytest.fixture(scope="module")
def tools(own_broker: Broker, in_front: Proxy) -> Iterator[Tools]:
    assert in_front.target == own_broker.bootstrap
    with Tools(in_front) as tools:
        yield tools


def produce(broker: Broker, topic: str, partition: int, count: int, size: int = 10) -> list[int]:
    """Send records; the codes of the errors that they met."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "message.max.bytes": 10_000_000})
    codes: list[int] = []
    for _ in range(count):
        producer.produce(
            topic,
            b"x" * size,
            partition=partition,
            on_delivery=lambda error, _: codes.append(error.code() if error else 0),
        )
    assert producer.flush(60) == 0
    return [code for code in codes if code]


def soon(condition: Callable[[], bool]) -> None:
    """What was changed is so: here when the tool ends, in Kafka a moment later."""
    if TARGET == "headgate":
        assert condition()
    else:
        until(condition, "Kafka's broker to follow its controller")


def created(tools: Tools, topic: str, partitions: int = 2) -> str:
    tools.lines(kafka_tools.TOPICS, "--create", "--topic", topic, "--partitions", str(partitions))
    return topic


def test_topics(tools: Tools) -> None:
    def topics(*arguments: str) -> list[str]:
        return tools.lines(kafka_tools.TOPICS, *arguments)

    new = ("--create", "--topic", "orders", "--partitions", "2", "--config", "retention.ms=3600000")
    assert topics(*new) == ["Created topic orders."]
    assert "exists" in tools.fails(kafka_tools.TOPICS, *new)
    assert topics(*new, "--if-not-exists") == []
    assert topics("--create", "--topic", "placed", "--replica-assignment", f"{NODE},{NODE}") == [
        "Created topic placed."
    ]
    assert (
        "replication factor"
        in tools.fails(kafka_tools.TOPICS, "--create", "--topic", "wide", "--replication-factor", "2").lower()
    )
    assert {"orders", "placed"} <= set(topics("--list", "--exclude-internal"))

    assert topics("--alter", "--topic", "orders", "--partitions", "3") == []
    head, *rows = topics("--describe", "--topic", "orders")
    assert re.match(r"Topic: orders TopicId: \S{22} PartitionCount: 3 ReplicationFactor: 1 Configs: ", head)
    assert "retention.ms=3600000" in head
    assert [row.partition(" Elr:")[0] for row in rows] == [
        f"Topic: orders Partition: {index} Leader: {NODE} Replicas: {NODE} Isr: {NODE}" for index in range(3)
    ]
    (topic_id,) = re.findall(r"TopicId: (\S+)", head)
    assert topics("--describe", "--topic-id", topic_id)[0] == head
    for troubled in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert topics("--describe", troubled) == []
    assert topics("--describe", "--topics-with-overrides", "--topic", "orders") == [head]

    assert topics("--delete", "--topic", "placed") == []
    assert "placed" not in topics("--list")
    assert "does not exist" in tools.fails(kafka_tools.TOPICS, "--delete", "--topic", "placed")


def test_settings_of_a_topic(tools: Tools, own_broker: Broker) -> None:
    topic = ("--entity-type", "topics", "--entity-name", created(tools, "set"))

    def configs(*arguments: str) -> list[str]:
        return tools.lines(kafka_tools.CONFIGS, *topic, *arguments)

    assert configs("--describe") == ["Dynamic configs for topic set are:"]
    added = "cleanup.policy=[compact,delete],max.message.bytes=1000"
    assert configs("--alter", "--add-config", added) == ["Completed updating config for topic set."]
    _, *rows = configs("--describe")
    assert sorted(row.partition(" ")[0] for row in rows) == ["cleanup.policy=compact,delete", "max.message.bytes=1000"]
    assert any("DEFAULT_CONFIG:message.max.bytes=1048588" in row for row in rows)
    soon(lambda: produce(own_broker, "set", 0, 1, size=2000) == [TOO_LARGE])

    configs("--alter", "--delete-config", "max.message.bytes")
    wanted = {"cleanup.policy=compact,delete", "max.message.bytes=1048588", "retention.ms=604800000"}
    soon(lambda: wanted <= {row.partition(" ")[0] for row in configs("--describe", "--all")})
    for wrong in ("max.message.bytes=many", "no.such=1"):
        assert "InvalidConfigurationException" in tools.fails(
            kafka_tools.CONFIGS, *topic, "--alter", "--add-config", wrong
        )
    assert "Invalid config" in tools.fails(kafka_tools.CONFIGS, *topic, "--alter", "--delete-config", "segment.ms")


def test_broker_settings_apply_at_once_and_survive_a_restart(tools: Tools, own_broker: Broker) -> None:
    topic = created(tools, "limited", 1)
    everybody, own = (
        ("--entity-type", "brokers", "--entity-default"),
        ("--entity-type", "brokers", "--entity-name", NODE),
    )

    def configs(*arguments: str) -> list[str]:
        return [line.partition(" sensitive")[0] for line in tools.lines(kafka_tools.CONFIGS, *arguments)]

    def bears(size: int) -> bool:
        return produce(own_broker, topic, 0, 1, size) == []

    assert bears(5000)
    configs(*everybody, "--alter", "--add-config", "message.max.bytes=2000")
    soon(lambda: not bears(5000))
    configs(*own, "--alter", "--add-config", "message.max.bytes=8000,log.retention.ms=7200000")
    soon(lambda: bears(5000))
    assert "message.max.bytes=2000" in configs(*everybody, "--describe")
    assert {"message.max.bytes=8000", "log.retention.ms=7200000"} <= set(configs(*own, "--describe"))
    _, *rows = tools.lines(kafka_tools.CONFIGS, *own, "--describe")
    (synonyms,) = [row for row in rows if row.startswith("message.max.bytes")]
    assert synonyms.endswith(
        "synonyms={DYNAMIC_BROKER_CONFIG:message.max.bytes=8000, DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=2000,"
        " DEFAULT_CONFIG:message.max.bytes=1048588}"
    )

    own_broker.restart()
    soon(lambda: not bears(9000) and bears(5000))
    configs(*own, "--alter", "--delete-config", "message.max.bytes,log.retention.ms")
    soon(lambda: not bears(5000))
    configs(*everybody, "--alter", "--delete-config", "message.max.bytes")
    soon(lambda: bears(5000))
    assert "message.max.bytes=2000" not in configs(*everybody, "--describe")
    assert "InvalidRequestException" in tools.fails(
        kafka_tools.CONFIGS, *own, "--alter", "--add-config", "num.partitions=7"
    )


def test_levels_of_loggers(tools: Tools) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", NODE)
    name = {"headgate": "headgate.handlers"}.get(TARGET, "kafka.server.KafkaApis")

    def level() -> set[str]:
        lines = tools.lines(kafka_tools.CONFIGS, *loggers, "--describe")
        return {line.partition(" ")[0].partition("=")[2] for line in lines if line.startswith(f"{name}=")}

    tools.lines(kafka_tools.CONFIGS, *loggers, "--alter", "--add-config", f"{name}=ERROR")
    assert level() == {"ERROR"}
    tools.lines(kafka_tools.CONFIGS, *loggers, "--alter", "--delete-config", name)
    assert level() == {"INFO"}
    assert "InvalidConfigurationException" in tools.fails(
        kafka_tools.CONFIGS, *loggers, "--alter", "--add-config", f"{name}=LOUD"
    )


def test_settings_of_a_group(tools: Tools) -> None:
    group = ("--entity-type", "groups", "--entity-name", "readers")
    tools.lines(kafka_tools.CONFIGS, *group, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    shown = [line.partition(" ")[0] for line in tools.lines(kafka_tools.CONFIGS, *group, "--describe")]
    assert "consumer.session.timeout.ms=50000" in shown


def throttle_times(broker: Broker, topic: str, client_id: str) -> list[float]:
    """The throttle times in seconds that a client reports when it sends 20 KB."""
    found: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client_id,
            "throttle_cb": lambda event: found.append(event.throttle_time),
        }
    )
    producer.produce(topic, b"x" * 20_000, partition=0)
    assert producer.flush(30) == 0
    producer.poll(0.1)
    return found


def test_quotas_are_shown_and_throttle_a_client(tools: Tools, own_broker: Broker) -> None:
    topic, client = created(tools, "bounded", 1), ("--entity-type", "clients", "--entity-name", "bounded")
    tools.lines(kafka_tools.CONFIGS, *client, "--alter", "--add-config", "producer_byte_rate=1000")
    shown = "Quota configs for client-id 'bounded' are producer_byte_rate=1000.0"
    soon(lambda: tools.lines(kafka_tools.CONFIGS, *client, "--describe") == [shown])
    soon(lambda: any(time_s > 5 for time_s in throttle_times(own_broker, topic, "bounded")))
    assert throttle_times(own_broker, topic, "another") == []

    pair = ("--entity-type", "users", "--entity-name", "ann", "--entity-type", "clients", "--entity-default")
    tools.lines(kafka_tools.CONFIGS, *pair, "--alter", "--add-config", "request_percentage=12.5")
    shown = "Quota configs for user-principal 'ann', the default client-id are request_percentage=12.5"
    soon(lambda: tools.lines(kafka_tools.CONFIGS, *pair, "--describe") == [shown])

    for entity, key in ((client, "producer_byte_rate"), (pair, "request_percentage")):
        tools.lines(kafka_tools.CONFIGS, *entity, "--alter", "--delete-config", key)
    soon(lambda: tools.lines(kafka_tools.CONFIGS, *client, "--describe") == [])
    wrong = (*client, "--alter", "--add-config", "producer_byte_rate=-5")
    assert "Quota producer_byte_rate must be greater than 0" in tools.fails(kafka_tools.CONFIGS, *wrong)


def test_offsets_and_deleted_records(tools: Tools, own_broker: Broker, tmp_path: Path) -> None:
    topic = created(tools, "read")
    produce(own_broker, topic, 0, 5)
    produce(own_broker, topic, 1, 3)

    def offsets(time: str) -> list[str]:
        return tools.lines(kafka_tools.OFFSETS, "--topic", topic, "--time", time)

    assert offsets("latest") == ["read:0:5", "read:1:3"]
    assert offsets("earliest") == ["read:0:0", "read:1:0"]
    assert offsets("1000") == ["read:0:0", "read:1:0"]
    assert re.fullmatch(r"read:0:[0-4] read:1:[0-2]", " ".join(offsets("max-timestamp")))

    wanted = tmp_path / "offsets.json"
    rows = [{"topic": topic, "partition": 0, "offset": 4}, {"topic": topic, "partition": 1, "offset": -1}]
    wanted.write_text(json.dumps({"version": 1, "partitions": rows}))
    said = tools.lines(kafka_tools.DELETE_RECORDS, "--offset-json-file", str(wanted))
    assert sorted(said)[-2:] == [f"partition: {topic}-{index} low_watermark: {low}" for index, low in ((0, 4), (1, 3))]
    assert offsets("earliest") == ["read:0:4", "read:1:3"]
    rows[0]["offset"] = 6
    wanted.write_text(json.dumps({"version": 1, "partitions": rows[:1]}))
    (failed,) = tools.lines(kafka_tools.DELETE_RECORDS, "--offset-json-file", str(wanted))[2:]
    assert failed.startswith(f"partition: {topic}-0 error: ")


def test_log_directories(tools: Tools, own_broker: Broker) -> None:
    topic = created(tools, "stored")
    produce(own_broker, topic, 1, 5)
    *_, said = tools.lines(kafka_tools.LOG_DIRS, "--describe", "--topic-list", topic, "--broker-list", NODE)
    ((broker,), version) = json.loads(said)["brokers"], json.loads(said)["version"]
    assert (broker["broker"], version) == (int(NODE), 1)
    (directory,) = broker["logDirs"]
    assert (Path(directory["logDir"]), directory["error"]) == (own_broker.data, None)
    sizes = {row["partition"]: row["size"] for row in directory["partitions"]}
    assert sizes == {
        f"{topic}-{index}": sum(
            log.stat().st_size for log in own_broker.partition_directory(topic, index).glob("*.log")
        )
        for index in range(2)
    }
    assert sizes[f"{topic}-1"] > 0


def test_api_versions(tools: Tools) -> None:
    head, *rows = tools.lines(kafka_tools.API_VERSIONS)
    assert head.startswith(f"{tools.bootstrap} (id: {NODE} ")
    found = dict(re.findall(r"^(\w+)\(\d+\): ([\w ]+)", "\n".join(rows), re.MULTILINE))
    assert found["Metadata"].startswith("0 to 13")
    if TARGET == "headgate":
        assert found["Produce"].startswith("0 to ")
        assert found["Envelope" if "Envelope" in found else "AddRaftVoter"] == "UNSUPPORTED"


def test_the_cluster_its_quorum_and_its_features(tools: Tools) -> None:
    (line,) = tools.lines(kafka_tools.CLUSTER, "cluster-id")
    cluster_id = line.removeprefix("Cluster ID: ")
    _, node = tools.lines(kafka_tools.CLUSTER, "list-endpoints")
    assert node.split()[:3] == [NODE, *tools.bootstrap.split(":")]

    said = dict(line.split(": ", 1) for line in tools.lines(kafka_tools.QUORUM, "describe", "--status"))
    assert (said["ClusterId"], said["LeaderId"], said["MaxFollowerLag"]) == (cluster_id, NODE, "0")
    ((voter,), observers) = json.loads(said["CurrentVoters"]), json.loads(said["CurrentObservers"])
    assert (voter["id"], observers) == (int(NODE), [])
    _, replica = tools.lines(kafka_tools.QUORUM, "describe", "--replication")
    assert (replica.split()[0], replica.split()[3], replica.split()[-1]) == (NODE, "0", "Leader")

    def level() -> list[str]:
        lines = [line for line in tools.lines(kafka_tools.FEATURES, "describe") if "group.version" in line]
        return re.findall(r"FinalizedVersionLevel: (\d+)", "".join(lines))

    assert level() == ["1"]
    assert "group.version was downgraded to 0." in tools.lines(
        kafka_tools.FEATURES, "downgrade", "--feature", "group.version=0"
    )
    assert level() == ["0"]
    tools.lines(kafka_tools.FEATURES, "upgrade", "--feature", "group.version=1")
    assert level() == ["1"]
    assert "group.version" in tools.fails(kafka_tools.FEATURES, "upgrade", "--feature", "group.version=9")


def test_the_protocol_of_transactions_is_a_feature(tools: Tools, own_broker: Broker) -> None:
    """Which changes while a transaction is open: it is committed at the next level."""
    topic = created(tools, "leveled", 1)
    producer = Producer({"bootstrap.servers": own_broker.bootstrap, "transactional.id": "leveled", "linger.ms": 0})
    producer.init_transactions(20)

    def begin() -> None:
        producer.begin_transaction()
        producer.produce(topic, b"x")
        assert producer.flush(60) == 0

    def level() -> list[tuple[str, str]]:
        lines = [line for line in tools.lines(kafka_tools.FEATURES, "describe") if "transaction.version" in line]
        return re.findall(r"SupportedMaxVersion: (\d+) FinalizedVersionLevel: (\d+)", "".join(lines))

    assert level() == [("2", "2")]
    for kind, wanted in (("downgrade", "0"), ("upgrade", "1"), ("upgrade", "2")):
        begin()
        tools.lines(kafka_tools.FEATURES, kind, "--feature", f"transaction.version={wanted}")
        assert level() == [("2", wanted)]
        producer.commit_transaction(20)
    # A record and a marker each
    assert tools.lines(kafka_tools.OFFSETS, "--topic", topic) == [f"{topic}:0:6"]
    assert "transaction.version" in tools.fails(kafka_tools.FEATURES, "upgrade", "--feature", "transaction.version=3")


def test_consumer_groups(tools: Tools, own_broker: Broker) -> None:
    topic, group = created(tools, "grouped"), ("--group", "of-tools")
    produce(own_broker, topic, 0, 5)

    def groups(*arguments: str) -> list[list[str]]:
        return [line.split() for line in tools.lines(kafka_tools.CONSUMER_GROUPS, *arguments)]

    _, *rows = groups("--reset-offsets", *group, "--topic", topic, "--to-offset", "2", "--execute")
    assert sorted(rows) == [["of-tools", topic, "0", "2"], ["of-tools", topic, "1", "0"]]
    assert ["of-tools"] in groups("--list")
    assert any(line.split()[:1] == ["of-tools"] for line in tools.lines(kafka_tools.GROUPS, "--list"))
    _, *rows = groups("--describe", *group)
    assert sorted(row[:6] for row in rows) == [
        ["of-tools", topic, "0", "2", "5", "3"],
        ["of-tools", topic, "1", "0", "0", "0"],
    ]
    _, state = groups("--describe", "--state", *group)
    assert (state[0], state[-2], state[-1]) == ("of-tools", "Empty", "0")
    groups("--delete-offsets", *group, "--topic", f"{topic}:1")
    _, *rows = groups("--describe", *group)
    assert [row[:4] for row in rows] == [["of-tools", topic, "0", "2"]]
    assert "successful" in str(groups("--delete", *group))
    assert ["of-tools"] not in groups("--list")


def test_elections_and_moves_of_partitions(tools: Tools, tmp_path: Path) -> None:
    topic = created(tools, "moved")
    election = ("--election-type", "preferred", "--topic", topic, "--partition", "1")
    assert tools.lines(kafka_tools.ELECTION, *election) == [f"Valid replica already elected for partitions {topic}-1"]
    tools.lines(kafka_tools.ELECTION, "--election-type", "preferred", "--all-topic-partitions")

    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generate = ("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", NODE)
    lines = tools.lines(kafka_tools.REASSIGN, *generate)
    assert lines[0] == "Current partition replica assignment"
    assert json.loads(lines[1])["partitions"] == json.loads(lines[3])["partitions"]
    plan.write_text(lines[3])
    from_plan = ("--reassignment-json-file", str(plan))
    said = tools.lines(kafka_tools.REASSIGN, "--execute", *from_plan, "--throttle", "1000000")
    assert said[-1] == f"Successfully started partition reassignments for {topic}-0,{topic}-1"
    said = tools.lines(kafka_tools.REASSIGN, "--verify", *from_plan)
    assert [f"Reassignment of partition {topic}-{index} is completed." for index in range(2)] == said[1:3]
    assert tools.lines(kafka_tools.REASSIGN, "--list") == ["No partition reassignments found."]
    plan.write_text(lines[3].replace(f'"replicas":[{NODE}]', '"replicas":[7]'))
    tools.fails(kafka_tools.REASSIGN, "--execute", *from_plan)


def test_producers_and_transactions(tools: Tools, own_broker: Broker) -> None:
    topic = created(tools, "idempotent", 1)
    producer = Producer({"bootstrap.servers": own_broker.bootstrap, "enable.idempotence": True})
    for _ in range(3):
        producer.produce(topic, b"x")
    assert producer.flush(60) == 0

    _, row = tools.lines(kafka_tools.TRANSACTIONS, "describe-producers", "--topic", topic, "--partition", "0")
    producer_id, epoch, _, sequence, timestamp, transaction = row.split()
    assert int(producer_id) >= 0
    assert (epoch, sequence, transaction) == ("0", "2", "None")
    assert int(timestamp) > 1_700_000_000_000
    head, *_ = tools.lines(kafka_tools.TRANSACTIONS, "list")
    assert head.split() == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    assert len(tools.lines(kafka_tools.TRANSACTIONS, "find-hanging", "--broker-id", NODE)) == 1
    assert "could not be found" in tools.fails(kafka_tools.TRANSACTIONS, "describe", "--transactional-id", "nobody's")
    find_and_abort(tools, own_broker, topic)


def find_and_abort(tools: Tools, broker: Broker, topic: str) -> None:
    """A transaction that lives, and one that hangs behind it."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "lives", "linger.ms": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    assert producer.flush(60) == 0
    listed = [row.split() for row in tools.lines(kafka_tools.TRANSACTIONS, "list")]
    assert [(row[0], row[3]) for row in listed if row[0] == "lives"] == [("lives", "Ongoing")]
    assert len(tools.lines(kafka_tools.TRANSACTIONS, "list", "--duration-filter", "600000")) == 1
    _, row = tools.lines(kafka_tools.TRANSACTIONS, "describe", "--transactional-id", "lives")
    coordinator, name, producer_id, epoch, state, timeout_ms, start_ms, duration_ms, partitions = row.split()
    assert (coordinator, name, epoch, state) == (NODE, "lives", "0", "Ongoing")
    assert (timeout_ms, partitions) == ("60000", f"{topic}-0")
    assert int(start_ms) > 1_700_000_000_000
    assert int(duration_ms) < 60_000

    hanging = ("--topic", topic, "--partition", "0")
    old_ms = time.time_ns() // 1_000_000 - 3_600_000
    leave_hanging(broker.bootstrap, topic, producer_id=4_711_000, timestamp_ms=old_ms)
    _, row = tools.lines(kafka_tools.TRANSACTIONS, "find-hanging", *hanging)
    assert row.split()[:6] == [topic, "0", "4711000", str(PRODUCER_EPOCH), "-1", "4"]
    producer.commit_transaction(20)
    said = tools.run(kafka_tools.TRANSACTIONS, "abort", *hanging, "--start-offset", "4")
    assert said.status == 0, said
    assert len(tools.lines(kafka_tools.TRANSACTIONS, "find-hanging", *hanging)) == 1
    _, *rows = tools.lines(kafka_tools.TRANSACTIONS, "describe-producers", *hanging)
    markers = {row.split()[0]: (row.split()[2], row.split()[5]) for row in rows}
    assert markers["4711000"] == ("0", "None")
    assert markers[producer_id][1] == "None"
