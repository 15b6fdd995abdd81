"""Record what Apache Kafka 0.8.2.2, 2.8.2 and 3.9.1 write into ZooKeeper, for the pure tests of its layout.

    python -m compat_tests.zookeeper.recorder [0.8.2.2_topics ...]

records some scenes, or all of `SCENES`, each with a new ZooKeeper, into gateway/zookeeper/layout/tests/of_kafka/: a
line for each write, in ZooKeeper's order, under the name of the step that caused it. A line has the number of the
transaction (operations of one multi share it), the verb, `ephemeral` or `persistent` of a new node, the path, and the
data as a literal of Python.

Every recording differs in timestamps, ports, ids of the cluster, of topics and of consumers, salts of users, and in
the order of writes that Kafka has in flight together. The name of the machine is replaced by `host`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from compat_tests.harness import wire
from compat_tests.harness.apache_kafka import QUICK_START, ROOT, KafkaOnZooKeeper, run_tool
from compat_tests.harness.zookeeper import Write, ZooKeeper
from compat_tests.zookeeper.old_consumer import OldConsumer

TARGET: Final = ROOT / "gateway" / "zookeeper" / "layout" / "tests" / "of_kafka"
INIT_PRODUCER_ID, OFFSET_COMMIT = 22, 8
QUIET_S: Final = 0.7
ROUNDS: Final = 40
SETTINGS: Final = {
    "delete.topic.enable": "true",
    # A busy machine must not end a session
    "zookeeper.session.timeout.ms": "6000",
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "3000",
    "controlled.shutdown.enable": "true",
}
TWO_LISTENERS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
    "broker.rack": "a",
}
REASSIGNED: Final = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}
ELECTED: Final = {"partitions": [{"topic": "t", "partition": 1}, {"topic": "assigned", "partition": 0}]}


class Tools(NamedTuple):
    """Kafka's tools for one version: the jars, where they are pointed, and the classes that have other names."""

    jar_set: str
    where: tuple[str, ...]
    topics: str = "kafka.admin.TopicCommand"
    reassign: str = "kafka.admin.ReassignPartitionsCommand"

    def run(self, main_class: str, *arguments: str, stdin: str | None = None) -> None:
        run_tool(main_class, *self.where, *arguments, jar_set=self.jar_set, stdin=stdin)


class Recorder:
    """One ZooKeeper, some brokers of one version, and the lines of the recording so far."""

    def __init__(self, version: str, zookeeper: ZooKeeper) -> None:
        self.version = version
        self.zookeeper = zookeeper
        self.jar_set = {"0.8.2.2": "broker08", "2.8.2": "broker28", "3.9.1": "broker39"}[version]
        self.brokers: list[KafkaOnZooKeeper] = []
        self.lines: list[str] = []
        self.seen = 0

    @property
    def directory(self) -> Path:
        """For files of tools."""
        return self.zookeeper.directory

    def start_broker(self, broker_id: int, **settings: str) -> KafkaOnZooKeeper:
        known = {**SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}
        more: dict[str, Any] = {"jar_set": self.jar_set, "heap": "256m", "options": QUICK_START}
        broker = KafkaOnZooKeeper(self.zookeeper.connect, broker_id, known, **more)
        self.brokers.append(broker)
        broker.start()
        return broker

    def file(self, name: str, value: object) -> str:
        path = self.directory / name
        path.write_text(json.dumps(value))
        return str(path)

    def step(self, name: str) -> None:
        """Wait until nothing more is written; what was written since the last step belongs to this one."""
        print(f"{self.version}: {name}", file=sys.stderr)
        for _ in range(ROUNDS):
            writes = self.zookeeper.writes()
            time.sleep(QUIET_S)
            if len(self.zookeeper.writes()) == len(writes):
                break
        self.lines.append(f"# {name}")
        self.lines += map(_line, writes[self.seen :])
        self.seen = len(writes)

    def close(self) -> None:
        for broker in self.brokers:
            broker.kill()
            broker.close()

    def tools(self, *, through_zookeeper: bool = False) -> Tools:
        """The tools of the brokers' own version; 3.9's are published with 4.1 only."""
        if through_zookeeper or self.version == "0.8.2.2":
            return Tools(self.jar_set, ("--zookeeper", self.zookeeper.connect))
        where = ("--bootstrap-server", self.brokers[0].bootstrap)
        if self.version == "2.8.2":
            return Tools(self.jar_set, where)
        names = ("org.apache.kafka.tools.TopicCommand", "org.apache.kafka.tools.reassign.ReassignPartitionsCommand")
        return Tools("broker", where, *names)


def _line(write: Write) -> str:
    kind = "-" if write.verb != "create" else "ephemeral" if write.is_ephemeral else "persistent"
    words = (str(write.zxid), write.verb, kind, write.path, repr(write.data))
    return "\t".join(words).replace(socket.gethostname(), "host")


# --------------------------------------------------------------------------------------------------------- the scenes


def start_two(recorder: Recorder) -> None:
    if recorder.version == "0.8.2.2":
        recorder.start_broker(0)
        recorder.step("broker 0 starts")
        recorder.start_broker(1)
        recorder.step("broker 1 starts")
    else:
        recorder.start_broker(0, broker_rack="b")
        recorder.step("broker 0 starts, with a rack")
        recorder.start_broker(1, **TWO_LISTENERS)
        recorder.step("broker 1 starts, with a rack and two listeners")


def create(recorder: Recorder, topic: str, *arguments: str) -> None:
    tools = recorder.tools()
    tools.run(tools.topics, "--create", "--topic", topic, *arguments)


def topics(recorder: Recorder) -> None:
    """Topics are created, grow, and are deleted."""
    start_two(recorder)
    configs = ("--config", "retention.ms=1000000", "--config", "cleanup.policy=compact")
    create(recorder, "t", "--partitions", "3", "--replication-factor", "2", *configs)
    recorder.step("a topic with configs is created: 3 partitions, 2 replicas")
    create(recorder, "assigned", "--replica-assignment", "1:0,0:1,1:0")
    recorder.step("a topic with an assignment is created")
    tools = recorder.tools()
    tools.run(tools.topics, "--alter", "--topic", "t", "--partitions", "5")
    recorder.step("partitions are added: 5")
    tools.run(tools.topics, "--delete", "--topic", "assigned")
    recorder.step("a topic is deleted")


def many_partitions(recorder: Recorder) -> None:
    """The order in which a JSON object has many partitions."""
    recorder.start_broker(0)
    recorder.step("broker 0 starts")
    create(recorder, "many", "--partitions", "14", "--replication-factor", "1")
    recorder.step("a topic with 14 partitions is created")
    if recorder.version == "2.8.2":
        tools = recorder.tools(through_zookeeper=True)
        tools.run(tools.topics, "--create", "--topic", "t", "--partitions", "1", "--replication-factor", "1")
        recorder.step("a topic is created through ZooKeeper")


def old_configs(recorder: Recorder) -> None:
    """Configs of topics, by the one tool that 0.8.2 has for them."""
    recorder.start_broker(0)
    create(recorder, "t", "--partitions", "1", "--replication-factor", "1", "--config", "retention.ms=1000000")
    recorder.step("a broker starts, a topic is created")
    altered = ("--config", "max.message.bytes=99999", "--delete-config", "retention.ms")
    tools = recorder.tools()
    tools.run(tools.topics, "--alter", "--topic", "t", *altered)
    recorder.step("configs of a topic are altered")


def configs(recorder: Recorder) -> None:
    """Configs of topics and brokers."""
    recorder.start_broker(0)
    create(recorder, "t", "--partitions", "1", "--replication-factor", "1")
    recorder.step("a broker starts, a topic is created")
    topic = ("--entity-type", "topics", "--entity-name", "t")
    alter(recorder, "configs of a topic", *topic, "--add-config", "max.message.bytes=99999,segment.ms=500000")
    alter(recorder, "a config of a topic is deleted", *topic, "--delete-config", "segment.ms")
    broker = ("--entity-type", "brokers", "--entity-name", "0")
    alter(recorder, "a config of a broker", *broker, "--add-config", "num.io.threads=4")
    brokers = ("--entity-type", "brokers", "--entity-default")
    alter(recorder, "a config of all brokers", *brokers, "--add-config", "log.flush.interval.ms=9000")


def quotas(recorder: Recorder) -> None:
    """Quotas of clients, users and addresses, and a password."""
    recorder.start_broker(0)
    recorder.step("broker 0 starts")
    quota = ("--add-config", "consumer_byte_rate=1000")
    alter(recorder, "a quota of a client", "--entity-type", "clients", "--entity-name", "an app/1", *quota)
    alter(recorder, "the quota of clients", "--entity-type", "clients", "--entity-default", *quota)
    user, client = ("--entity-type", "users", "--entity-name", "CN=ä,O=*"), ("--entity-type", "clients")
    pair = (*user, *client, "--entity-name", "app")
    alter(recorder, "a quota of a user's client", *pair, *quota)
    alter(recorder, "it is deleted", *pair, "--delete-config", "consumer_byte_rate")
    user = ("--entity-type", "users", "--entity-name", "ann")
    alter(recorder, "a password", *user, "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]")
    address = ("--entity-type", "ips", "--entity-name", "127.0.0.2")
    alter(recorder, "a quota of an address", *address, "--add-config", "connection_creation_rate=10")


def alter(recorder: Recorder, name: str, *arguments: str) -> None:
    recorder.tools().run("kafka.admin.ConfigCommand", "--alter", *arguments)
    recorder.step(name)


def consumers(recorder: Recorder) -> None:
    """The consumer of 0.8: two members of one group."""
    start_with_messages(recorder)
    with member(recorder, "g", "static", "t", 2):
        recorder.step("a member with two streams joins a group")
        with member(recorder, "g", "static", "t", 1):
            recorder.step("a second member joins")
        recorder.step("it leaves")
    recorder.step("the first leaves")


def patterns(recorder: Recorder) -> None:
    """The consumer of 0.8 with expressions."""
    start_with_messages(recorder)
    for pattern, expression in (("white_list", 't|"a.*"|\\d'), ("black_list", "(assigned|many|__.*)")):
        with member(recorder, f"g-{pattern}", pattern, expression, 1):
            recorder.step(f"a member with a {pattern} joins")
        recorder.step("it leaves")


def start_with_messages(recorder: Recorder) -> None:
    broker = recorder.start_broker(0)
    create(recorder, "t", "--partitions", "3", "--replication-factor", "1")
    produce(broker)
    recorder.step("a broker starts, a topic gets messages")


def produce(broker: KafkaOnZooKeeper) -> None:
    numbers = "\n".join(map(str, range(50)))
    brokers = ("--broker-list", broker.bootstrap, "--topic", "t")
    run_tool("kafka.tools.ConsoleProducer", *brokers, jar_set="broker08", stdin=numbers)


@contextlib.contextmanager
def member(recorder: Recorder, group: str, pattern: str, what: str, streams: int) -> Iterator[None]:
    """A member of a group, until it has left."""
    connect = recorder.zookeeper.connect
    with OldConsumer("0.8.2.2", connect, group, what, streams=streams, pattern=pattern) as consumer:
        consumer.wait_for_start()
        yield


def requests(recorder: Recorder) -> None:
    """OffsetCommit 0 has the broker write into ZooKeeper; the first InitProducerId takes a block of producer ids."""
    broker = recorder.start_broker(0)
    create(recorder, "t", "--partitions", "3", "--replication-factor", "1")
    recorder.step("a broker starts, a topic is created")
    with wire.connect(broker.bootstrap, 60) as stream:
        partition = struct.pack(">iqh", 2, 41, -1)
        body = wire.string("old") + struct.pack(">i", 1) + wire.string("t") + struct.pack(">i", 1) + partition
        answer = wire.ask(stream, OFFSET_COMMIT, 0, body)
        assert answer[-2:] == bytes(2), answer
    recorder.step("OffsetCommit 0")
    for _ in range(ROUNDS):
        with wire.connect(broker.bootstrap, 60) as stream:
            answer = wire.ask(stream, INIT_PRODUCER_ID, 0, struct.pack(">hi", -1, 60_000))
        if answer[4:6] == bytes(2):
            break
        time.sleep(0.25)
    recorder.step("a producer id is taken")


def reassignment(recorder: Recorder) -> None:
    """Partitions are reassigned."""
    start_two(recorder)
    create(recorder, "t", "--replica-assignment", "0:1,1:0")
    recorder.step("a topic is created")
    tools = recorder.tools(through_zookeeper=recorder.version == "2.8.2")
    execute = ("--reassignment-json-file", recorder.file("reassigned.json", REASSIGNED), "--execute")
    if recorder.version == "0.8.2.2":
        tools.run(tools.reassign, *execute)
        recorder.step("a partition is reassigned")
        return
    tools.run(tools.reassign, *execute, "--throttle", "1000000")
    recorder.step("a partition is reassigned, with a throttle")
    tools.run(tools.reassign, *execute[:2], "--verify")
    recorder.step("the throttle is removed")
    if recorder.version == "2.8.2":
        back = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [0, 1]}]}
        tools = recorder.tools()
        tools.run(tools.reassign, "--reassignment-json-file", recorder.file("back.json", back), "--execute")
        recorder.step("it is reassigned back, through the broker")


def leaders(recorder: Recorder) -> None:
    """Brokers stop, leaders move, the controller moves, preferred leaders are elected."""
    start_two(recorder)
    create(recorder, "t", "--replica-assignment", "0:1,1:0")
    recorder.step("a topic is created")
    first, second = recorder.brokers
    second.stop()
    recorder.step("broker 1 stops")
    second.start()
    recorder.step("it starts again")
    first.kill()
    deadline = time.monotonic() + 30
    while not any("/controller" in write.path for write in recorder.zookeeper.writes()[recorder.seen :]):
        assert time.monotonic() < deadline, "the controller did not move"
        time.sleep(0.1)
    recorder.step("broker 0, the controller, is killed: its session expires")
    first.start()
    recorder.step("it starts again")
    if recorder.version == "3.9.1":
        election = "org.apache.kafka.tools.LeaderElectionCommand"
        recorder.tools().run(election, "--election-type", "preferred", "--all-topic-partitions")
    else:
        elected = ("--path-to-json-file", recorder.file("elected.json", ELECTED))
        tools = recorder.tools(through_zookeeper=True)
        tools.run("kafka.admin.PreferredReplicaLeaderElectionCommand", *elected)
    recorder.step("preferred leaders are elected")


def isr_changes(recorder: Recorder) -> None:
    """Brokers before 2.7 tell of changes of the in-sync set through ZooKeeper, and register themselves otherwise."""
    for broker_id in (0, 1):
        recorder.start_broker(broker_id, inter_broker_protocol_version="2.6", zookeeper_session_timeout_ms="18000")
    recorder.step("two brokers start with inter.broker.protocol.version=2.6")
    create(recorder, "t", "--replica-assignment", "0:1")
    recorder.step("a topic is created")
    subprocess.run(["kill", "-STOP", str(recorder.brokers[1].pid)], check=True)
    produce(recorder.brokers[0])  # who has every record is in sync, however long it stands still
    time.sleep(5)
    subprocess.run(["kill", "-CONT", str(recorder.brokers[1].pid)], check=True)
    time.sleep(9)  # leaders gather such changes for some seconds
    recorder.step("broker 1 stands still for some seconds, while the topic gets messages")


SCENES: Final[dict[str, tuple[Callable[[Recorder], None], ...]]] = {
    "0.8.2.2": (topics, many_partitions, old_configs, consumers, patterns, reassignment, leaders),
    "2.8.2": (topics, many_partitions, configs, quotas, consumers, requests, reassignment, leaders, isr_changes),
    "3.9.1": (topics, many_partitions, configs, quotas, consumers, requests, reassignment, leaders),
}


def main(names: list[str]) -> None:
    TARGET.mkdir(exist_ok=True)
    for version, scenes in SCENES.items():
        for scene in scenes:
            name = f"{version}_{scene.__name__}"
            if names and name not in names:
                continue
            with ZooKeeper() as zookeeper:
                recorder = Recorder(version, zookeeper)
                try:
                    scene(recorder)
                finally:
                    recorder.close()
                (TARGET / f"{name}.txt").write_text("\n".join(recorder.lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
