"""Three brokers under load: a follower is killed and comes back, replicas move, and nothing is lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from confluent_kafka import KafkaError, Producer

from compat_tests.cluster.cluster import HEADGATE, IDS, KAFKA, LAG_MS, Cluster
from compat_tests.cluster.replicas import assert_equal
from compat_tests.cluster.traffic import Traffic
from compat_tests.harness.apache_kafka import REASSIGN
from compat_tests.harness.records import Sent
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.topics import create_topics, placed_topic
from compat_tests.harness.waiting import until
from compat_tests.matrix.rows.jvm import OLDEST, Jvm
from compat_tests.zookeeper.old_consumer import OldConsumer

KINDS = [HEADGATE, pytest.param(KAFKA, marks=pytest.mark.soak)]
# Kafka since 3.7 leaves the high watermark where it is below min.insync.replicas: the request waits for its time-out
SHRUNK_MEANWHILE = {HEADGATE: KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, KAFKA: KafkaError.REQUEST_TIMED_OUT}
REQUEST_MS = 3 * LAG_MS
LIMIT_S = 30


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp(request.param), request.param) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def whole_again(cluster: Cluster) -> Iterator[None]:
    """A test that fails leaves no broker behind that is stopped."""
    yield
    cluster.repair()


def test_any_broker_creates_a_topic_with_three_replicas(cluster: Cluster) -> None:
    for one in IDS:
        name = f"by-{one}"
        create_topics(cluster.brokers[one].bootstrap, {name: {}}, 6, 3)
        cluster.wait_for_topic(name, 6)
        states = cluster.states(name)
        assert [state.leader for state in states] == [state.replicas[0] for state in states]
        assert Counter(state.leader for state in states) == dict.fromkeys(IDS, 2)
        assert all(set(state.replicas) == set(IDS) for state in states)


# test_faults.py has a follower that is killed for longer than its session too
@pytest.mark.parametrize(
    "is_noticed", [pytest.param(True, marks=pytest.mark.soak), False], ids=["after its session", "at once"]
)
def test_a_follower_is_killed_and_comes_back(cluster: Cluster, is_noticed: bool, figure: Callable[[str], None]) -> None:
    if cluster.kind == KAFKA and not is_noticed:
        pytest.skip("a broker of Kafka does not start within the session of its last process")
    controller, other, idle, _ = cluster.roles()
    placement = [(controller, other, idle), (other, idle, controller)] * 2
    with Traffic(cluster, placement) as traffic:
        cluster.kill(idle)
        if is_noticed:
            cluster.wait_for_session_end(idle)
            cluster.wait_for_sets(traffic.topic, without=idle)
            traffic.flow()
        cluster.start(idle)
        full_s = cluster.wait_for_full_sets()
        traffic.flow()
    count = traffic.check()
    traffic.assert_undisturbed(placement)
    figure(f"{cluster.kind}: a follower killed, {count} records in 3 logs; sets full {full_s:.2f} s after the start")


def test_replicas_move_though_the_controller_is_killed(cluster: Cluster, figure: Callable[[str], None]) -> None:
    """Kafka's tool moves a partition off a broker, and gives another one a third replica."""
    controller, other, idle, _ = cluster.roles()
    with Traffic(cluster, [(controller, other), (other, controller)]) as traffic:
        placement = [(idle, other), (other, controller, idle)]
        plan = Plan(cluster, dict.fromkeys((traffic.topic, traffic.java_topic), placement))
        plan.begin_without(idle)
        cluster.kill(controller)
        cluster.wait_for_session_end(controller)
        cluster.start(idle)
        traffic.flow()
        cluster.start(controller)
        full_s = cluster.wait_for_full_sets()
        until(plan.is_completed, "the end of all moves", LIMIT_S)
    count = traffic.check()
    for topic in plan.placements:
        assert [state.replicas for state in cluster.states(topic)] == placement
        assert [path.name for path in cluster.brokers[controller].data.glob(f"{topic}-?")] == [f"{topic}-1"]
    figure(f"{cluster.kind}: replicas moved, {count} records in all logs; sets full {full_s:.2f} s after the start")


class Plan:
    """Replicas of topics, as kafka-reassign-partitions reads them."""

    def __init__(self, cluster: Cluster, placements: Mapping[str, Sequence[Sequence[int]]]) -> None:
        self.cluster, self.placements = cluster, placements
        rows = [
            {"topic": topic, "partition": number, "replicas": list(replicas)}
            for topic, placement in placements.items()
            for number, replicas in enumerate(placement)
        ]
        self.count = len(rows)
        self._file = cluster.directory / "moves.json"
        self._file.write_text(json.dumps({"version": 1, "partitions": rows}))

    def _run(self, action: str) -> str:
        bootstrap = ",".join(self.cluster.brokers[one].bootstrap for one in self.cluster.serving())
        return tool_output(
            REASSIGN, "--bootstrap-server", bootstrap, "--reassignment-json-file", str(self._file), action
        )

    def begin_without(self, broker_id: int) -> None:
        """Kill a broker, and begin to move replicas there within its session, in which it counts as alive."""
        self._run("--verify")  # the JVM of the tool runs afterwards
        self.cluster.kill(broker_id)
        assert "Successfully started partition reassignments" in self._run("--execute")

    def is_completed(self) -> bool:
        return self._run("--verify").count(" is completed.") == self.count


def test_min_insync_replicas_refuses_acks_all_alone(cluster: Cluster) -> None:
    controller, other, idle, _ = cluster.roles()
    three, two = (
        placed_topic(cluster.bootstrap, [(controller, other, idle)], {"min.insync.replicas": least})
        for least in ("3", "2")
    )
    for topic in (three, two):
        cluster.wait_for_topic(topic, 1)
    assert outcome(cluster, three, "all") is None
    cluster.pause(idle)
    assert outcome(cluster, three, "all") == SHRUNK_MEANWHILE[cluster.kind]
    assert outcome(cluster, three, "all") == KafkaError.NOT_ENOUGH_REPLICAS
    assert outcome(cluster, three, "1") is None
    assert outcome(cluster, two, "all") is None
    cluster.kill(idle)
    cluster.kill(other)
    cluster.wait_for_sets(two, without=other)
    assert outcome(cluster, two, "all") == KafkaError.NOT_ENOUGH_REPLICAS
    assert outcome(cluster, two, "1") is None
    for one in (idle, other):
        cluster.start(one)
    cluster.wait_for_full_sets()
    assert outcome(cluster, two, "all") is None
    assert [assert_equal(cluster, topic) for topic in (three, two)] == [3, 3]


def outcome(cluster: Cluster, topic: str, acks: str) -> int | None:
    """The error that librdkafka reports for one record that it sends once, or None."""
    settings = {"bootstrap.servers": cluster.bootstrap, "acks": acks, "retries": 0, "log_level": 2}
    producer = Producer({**settings, "request.timeout.ms": REQUEST_MS})
    outcomes: list[KafkaError | None] = []
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(LIMIT_S) == 0
    return None if outcomes[0] is None else outcomes[0].code()


def test_clients_of_kafka_0_8_write_and_read(cluster: Cluster) -> None:
    """The producer has three brokers for its bootstrap; the consumer finds them in ZooKeeper."""
    topic, count = "of-old", 60
    create_topics(cluster.bootstrap, {topic: {}}, 3, 3)
    cluster.wait_for_topic(topic, 3)
    sent = [Sent(number % 3, None, None, b"%d" % number, ()) for number in range(count)]
    Jvm(OLDEST.removeprefix("matrix/")).produce_each(cluster.bootstrap, topic, {"none": sent})
    with OldConsumer("0.8.2.2", cluster.zookeeper.connect, "of-old", topic) as consumer:
        until(lambda: len(consumer.records) >= count, f"{count} messages: {consumer.errors}")
    assert sorted(int(read.value or b"") for read in consumer.records) == list(range(count))
