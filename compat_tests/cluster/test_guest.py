"""Headgate and Apache Kafka 3.9 in one cluster: either kind is the controller, and each broker leads and follows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kazoo.exceptions import NoNodeError

from compat_tests.cluster.cluster import HEADGATE, KAFKA, Cluster, of_topic
from compat_tests.cluster.replicas import assert_equal
from compat_tests.cluster.traffic import Traffic, ends
from compat_tests.families.confluent import Confluent
from compat_tests.families.family import FromStart
from compat_tests.harness.apache_kafka import ELECT, REASSIGN
from compat_tests.harness.records import Sent
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.topics import delete_topic, placed_topic
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import send
from compat_tests.matrix.rows.jvm import NEWEST

# Each broker leads two partitions first
PLACEMENT = [(0, 1, 2), (1, 2, 0), (2, 0, 1)] * 2
COORDINATORS = ("__consumer_offsets", "__transaction_state")
LIMIT_S = 60


class Mixture(NamedTuple):
    """A cluster of both kinds. `order`: a guest, which is killed, a broker of the other kind, the third."""

    kind: str
    guests: Mapping[int, str]
    order: tuple[int, int, int]


A_GUEST = pytest.param(Mixture(KAFKA, {0: HEADGATE}, (0, 1, 2)), id="one-headgate")
A_HOST = pytest.param(
    Mixture(HEADGATE, {1: KAFKA, 2: KAFKA}, (1, 0, 2)),
    id="two-kafkas",
    marks=pytest.mark.soak,
)


A_KAFKA = pytest.param(
    Mixture(HEADGATE, {1: KAFKA}, (1, 0, 2)),
    id="one-kafka",
    marks=pytest.mark.soak,
)
ALL = [A_GUEST, A_HOST, A_KAFKA]


@contextmanager
def running(mixture: Mixture, directory: Path) -> Iterator[Cluster]:
    """The cluster; coordinators are first on the guest, then on a broker of the other kind."""
    settings = {"transaction.state.log.num.partitions": "1"}
    with Cluster(directory, mixture.kind, settings, guests=mixture.guests) as cluster:
        assert cluster.kinds[cluster.view(0).controller] == mixture.kind
        found = json.loads(cluster.nodes.get("/headgate/feature")[0])
        assert found["levels"] == {"group.version": 0, "transaction.version": 0}
        for topic in COORDINATORS:
            placed_topic(cluster.bootstrap, [mixture.order], {"cleanup.policy": "compact"}, topic)
            cluster.wait_for_topic(topic, 1)
        yield cluster


def lose(cluster: Cluster, broker_id: int, *topics: str) -> None:
    """Kill a broker, and wait until others lead."""
    cluster.kill(broker_id)
    cluster.wait_for_session_end(broker_id)
    for topic in topics:
        cluster.wait_for_sets(topic, without=broker_id)


def find(cluster: Cluster, broker_id: int, topics: Mapping[str, int]) -> None:
    """Start a broker, and have it lead the partitions again whose first replica it has."""
    cluster.start(broker_id)
    cluster.wait_for_full_sets()
    wanted = [{"topic": topic, "partition": index} for topic, count in topics.items() for index in range(count)]
    file = cluster.directory / "election.json"
    file.write_text(json.dumps({"partitions": wanted}))
    options = ("--election-type", "preferred", "--path-to-json-file", str(file))
    tool_output(ELECT, "--bootstrap-server", cluster.bootstrap, *options)

    def are_led() -> bool:
        states = [
            state for one in cluster.serving() for topic in topics for state in of_topic(cluster.view(one), topic)
        ]
        return all(state.leader == state.replicas[0] for state in states)

    until(are_led, "preferred leaders", LIMIT_S)


@pytest.mark.parametrize("mixture", ALL)
def test_leads_and_a_group_move_between_both_kinds(
    mixture: Mixture, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    guest, other, _ = mixture.order
    with running(mixture, tmp_path) as cluster:
        with Traffic(cluster, PLACEMENT) as traffic:
            lose(cluster, guest, traffic.topic, traffic.java_topic, COORDINATORS[0])
            assert cluster.states(COORDINATORS[0])[0].leader == other
            traffic.flow()
            find(cluster, guest, {traffic.topic: 6, traffic.java_topic: 6, COORDINATORS[0]: 1})
            traffic.flow()
        count = traffic.check()
        assert all(max(cluster.epochs(topic)) >= 2 for topic in (traffic.topic, traffic.java_topic))
        assert_equal(cluster, COORDINATORS[0])
    figure(f"{mixture.kind} is the controller, {cluster.kinds[guest]} was killed: {count} records in 3 equal logs")


@pytest.mark.soak
@pytest.mark.parametrize("mixture", ALL)
def test_a_transactional_id_moves_between_both_kinds(mixture: Mixture, tmp_path: Path) -> None:
    guest, other, _ = mixture.order
    with running(mixture, tmp_path) as cluster:
        # The records of the Java program are of 1970: Kafka deletes such segments 30 s after its start
        topic, of_java = (placed_topic(cluster.bootstrap, PLACEMENT, {"retention.ms": "-1"}) for _ in range(2))
        for each in topic, of_java:
            cluster.wait_for_topic(each, len(PLACEMENT))
        first = transactional(cluster)
        transact(first, topic, "1")
        transact_by_java(cluster, of_java, "1")
        lose(cluster, guest, topic, of_java, *COORDINATORS)
        assert cluster.states(COORDINATORS[1])[0].leader == other
        transact(first, topic, "2")
        transact_by_java(cluster, of_java, "2")
        second = transactional(cluster)
        transact(second, topic, "aborted", is_committed=False)
        find(cluster, guest, {topic: len(PLACEMENT), of_java: len(PLACEMENT)} | dict.fromkeys(COORDINATORS, 1))
        transact(second, topic, "3")
        transact_by_java(cluster, of_java, "3")
        with pytest.raises(KafkaException) as fenced:
            transact(first, topic, "fenced")
        assert fenced.value.args[0].code() in {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH}  # noqa: SLF001
        transact(second, topic, "4")
        transact_by_java(cluster, of_java, "4")
        for each in topic, of_java:
            limits = dict.fromkeys(range(len(PLACEMENT)), 4)
            records = Confluent().consume(cluster.bootstrap, each, FromStart(), limits)
            for partition in limits:
                values = [record.value for record in records if record.partition == partition]
                assert values == [b"1", b"2", b"3", b"4"], each
            assert_equal(cluster, each)
        assert_equal(cluster, COORDINATORS[1])


@pytest.mark.soak
@pytest.mark.parametrize("mixture", ALL)
def test_the_controller_moves_between_both_kinds(mixture: Mixture, tmp_path: Path) -> None:
    """Each controller creates and deletes a topic, and has every set shrink and grow again."""
    with running(mixture, tmp_path) as cluster:
        with Traffic(cluster, PLACEMENT) as traffic:
            for kind in (HEADGATE, KAFKA, HEADGATE):
                elect_controller(cluster, kind)
                create_and_delete(cluster)
                follower = next(one for one in cluster.kinds if one != cluster.view(0).controller)
                cluster.pause(follower)
                for topic in traffic.topic, traffic.java_topic:
                    cluster.wait_for_sets(topic, without=follower)
                cluster.resume(follower)
                cluster.wait_for_full_sets()
                traffic.flow()
        traffic.check()


def elect_controller(cluster: Cluster, kind: str) -> None:
    """Delete the node of the controller until a broker of this kind is elected, and every broker knows."""

    def is_elected() -> bool:
        controllers = {view.controller for view in cluster.views()}
        if len(controllers) == 1 and cluster.kinds.get(min(controllers)) == kind:
            return True
        if len(controllers) == 1 and min(controllers) in cluster.kinds:
            with suppress(NoNodeError):
                cluster.nodes.delete("/controller")
        return False

    until(is_elected, f"a controller of the kind {kind}", LIMIT_S, 0.5)


def create_and_delete(cluster: Cluster) -> None:
    """The present controller creates a topic, and deletes its logs on every broker."""
    topic = placed_topic(cluster.bootstrap, PLACEMENT)
    cluster.wait_for_topic(topic, len(PLACEMENT))
    delete_topic(cluster.bootstrap, topic)
    brokers = cluster.brokers.values()
    until(lambda: not any(list(one.data.glob(f"{topic}-?")) for one in brokers), f"{topic} to be deleted", LIMIT_S)


@pytest.mark.soak
@pytest.mark.parametrize("mixture", ALL)
def test_brokers_of_both_kinds_stop_and_start_in_turn(mixture: Mixture, tmp_path: Path) -> None:
    with running(mixture, tmp_path) as cluster:
        with Traffic(cluster, PLACEMENT) as traffic:
            for one in cluster.kinds:
                cluster.stop(one)
                traffic.flow()
                cluster.start(one)
                cluster.wait_for_full_sets()
                traffic.flow()
        traffic.check()


@pytest.mark.soak
@pytest.mark.parametrize("kind, guest", [(KAFKA, HEADGATE), (HEADGATE, KAFKA)])
def test_a_topic_moves_to_a_broker_of_the_other_kind_and_back(kind: str, guest: str, tmp_path: Path) -> None:
    """The controller, of the one kind, moves the replicas, as `kafka-reassign-partitions.sh` asks for."""
    with Cluster(tmp_path, kind, guests={0: guest}) as cluster:
        topic = placed_topic(cluster.bootstrap, [(1, 2), (2, 1)])
        cluster.wait_for_topic(topic, 2)
        values = [str(number) for number in range(1000)]
        send(cluster.bootstrap, topic, values)
        for replicas in [(0, 1), (0,), (2, 0), (1, 2)]:
            reassign(cluster, topic, replicas)
            assert_equal(cluster, topic)
            send(cluster.bootstrap, topic, values)
        counts = ends(cluster.bootstrap, topic, 2)
        records = Confluent().consume(cluster.bootstrap, topic, FromStart(), counts)
        assert sorted(int(record.value or b"") for record in records) == sorted(5 * list(range(1000)))
        until(lambda: not list(cluster.brokers[0].data.glob(f"{topic}-?")), "the replicas of the guest to be deleted")


def reassign(cluster: Cluster, topic: str, replicas: tuple[int, ...]) -> None:
    """Move every partition of a topic to these brokers."""
    wanted = [{"topic": topic, "partition": number, "replicas": replicas} for number in range(2)]
    file = cluster.directory / "reassignment.json"
    file.write_text(json.dumps({"version": 1, "partitions": wanted}))
    tool_output(REASSIGN, "--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(file), "--execute")

    def is_done() -> bool:
        states = [of_topic(view, topic) for view in cluster.views()]
        return all(set(state.replicas) == state.in_sync == set(replicas) for each in states for state in each)

    until(is_done, f"{topic} to be on {replicas}", LIMIT_S, 0.1)


def transactional(cluster: Cluster) -> Producer:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "moves", "log_level": 0})
    producer.init_transactions(LIMIT_S)
    return producer


def transact_by_java(cluster: Cluster, topic: str, value: str) -> None:
    """A transaction that is aborted and one that is committed, with one record in each partition, and offsets."""
    transactions = [
        (end, [Sent(partition, 1, None, text.encode(), ()) for partition in range(len(PLACEMENT))])
        for end, text in (("abort", "aborted"), ("commit", value))
    ]
    # The program may complain of no broker that is gone
    bootstrap = ",".join(cluster.brokers[one].bootstrap for one in cluster.serving())
    NEWEST.transact(bootstrap, topic, "java", "of-java", transactions)


def transact(producer: Producer, topic: str, value: str, *, is_committed: bool = True) -> None:
    """A transaction with one record in each partition."""
    producer.begin_transaction()
    for partition in range(len(PLACEMENT)):
        producer.produce(topic, value, partition=partition)
    producer.flush(LIMIT_S)
    if is_committed:
        producer.commit_transaction(LIMIT_S)
    else:
        producer.abort_transaction(LIMIT_S)
