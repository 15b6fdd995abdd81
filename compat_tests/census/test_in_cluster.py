"""The census of a cluster: each broker writes its own rows to whichever broker leads the topic, also to a Kafka."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from compat_tests.cluster.cluster import HEADGATE, KAFKA, Cluster
from compat_tests.harness.broker import TARGET, installed_command
from compat_tests.harness.topics import delete_topic, placed_topic
from compat_tests.harness.waiting import until

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="a Kafka has no census")

TOPIC: Final = "__headgate_census"
SETTINGS: Final = {"headgate.census": "true", "headgate.census.interval.ms": "300"}
LIMIT_S: Final = 30.0


def connect(cluster: Cluster, broker_id: int, client_id: str) -> None:
    """A client asks one broker for the topics, and is gone."""
    AdminClient({"bootstrap.servers": cluster.brokers[broker_id].bootstrap, "client.id": client_id}).list_topics(
        timeout=LIMIT_S
    )


def rows(cluster: Cluster) -> list[dict[str, Any]]:
    command = [*installed_command(), "census", "--bootstrap-server", cluster.bootstrap, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "has no census" in done.stderr:
        return []
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def wait_for(cluster: Cluster, wanted: Mapping[str, set[int]]) -> dict[str, dict[str, Any]]:
    """Until the census has these clients, each counted by these brokers at least; the rows by client id."""
    found: dict[str, dict[str, Any]] = {}

    def is_complete() -> bool:
        found.clear()
        found.update((row["client_id"], row) for row in rows(cluster))
        return all(name in found and set(found[name]["node_ids"]) >= nodes for name, nodes in wanted.items())

    until(is_complete, f"the census to have {wanted}", LIMIT_S, 0.2)
    return found


def leader(cluster: Cluster) -> int:
    return cluster.states(TOPIC)[0].leader


def test_each_broker_writes_its_own_rows(tmp_path: Path) -> None:
    with Cluster(tmp_path, HEADGATE, SETTINGS) as cluster:
        for broker_id in cluster.brokers:
            connect(cluster, broker_id, f"only-{broker_id}")
            connect(cluster, broker_id, "all")
        wanted = {f"only-{broker_id}": {broker_id} for broker_id in cluster.brokers} | {"all": set(cluster.brokers)}
        found = wait_for(cluster, wanted)
        assert not [name for name in found if name and name.startswith("broker-")], "links are no clients"
        (state,) = cluster.states(TOPIC)
        assert len(state.replicas) == len(cluster.brokers)
        assert_refused(cluster)


@pytest.mark.soak
def test_the_census_goes_on_after_the_death_of_the_leader(tmp_path: Path) -> None:
    """The broker continues its rows after its return."""
    with Cluster(tmp_path, HEADGATE, SETTINGS) as cluster:
        for broker_id in cluster.brokers:
            connect(cluster, broker_id, f"only-{broker_id}")
        found = wait_for(cluster, {f"only-{broker_id}": {broker_id} for broker_id in cluster.brokers})
        lost = leader(cluster)
        other = next(broker_id for broker_id in cluster.brokers if broker_id != lost)
        requests = found[f"only-{lost}"]["requests"]
        cluster.kill(lost)
        cluster.wait_for_session_end(lost)
        cluster.wait_for_sets(TOPIC, without=lost)
        connect(cluster, other, "later")
        wait_for(cluster, {"later": {other}, f"only-{lost}": {lost}})
        cluster.start(lost)
        cluster.wait_for_full_sets()
        connect(cluster, lost, f"only-{lost}")
        cluster.stop(lost)
        until(
            lambda: wait_for(cluster, {f"only-{lost}": {lost}})[f"only-{lost}"]["requests"] > requests,
            "the rows of the earlier process to be continued",
            LIMIT_S,
        )


def assert_refused(cluster: Cluster) -> None:
    """A client does not write to the topic."""
    codes: list[int] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(TOPIC, b"mine", callback=lambda error, _: codes.append(error.code() if error else 0))
    producer.flush(LIMIT_S)
    assert codes == [KafkaError.TOPIC_EXCEPTION]


def is_placed(cluster: Cluster) -> bool:
    """Create the topic, with broker 2 as the leader; a broker may have been quicker, as tools are clients too."""
    try:
        placed_topic(cluster.bootstrap, [(2, 0, 1)], {"cleanup.policy": "compact"}, TOPIC)
    except KafkaException:
        delete_topic(cluster.bootstrap, TOPIC)
        return False
    return True


@pytest.mark.soak
@pytest.mark.parametrize(
    "kind, guests", [(HEADGATE, {2: KAFKA}), (KAFKA, {0: HEADGATE})], ids=["one-kafka", "two-kafkas"]
)
def test_a_kafka_leads_the_topic(kind: str, guests: Mapping[int, str], tmp_path: Path) -> None:
    """A broker of Kafka takes it for a topic like any other."""
    with Cluster(tmp_path, kind, SETTINGS, guests=MappingProxyType(guests)) as cluster:
        until(lambda: is_placed(cluster), f"{TOPIC} to be led by the broker of Kafka", LIMIT_S)
        cluster.wait_for_topic(TOPIC, 1)
        assert leader(cluster) == 2
        hosts = [broker_id for broker_id, of in cluster.kinds.items() if of == HEADGATE]
        for broker_id in hosts:
            connect(cluster, broker_id, f"only-{broker_id}")
        wait_for(cluster, {f"only-{broker_id}": {broker_id} for broker_id in hosts})
        assert leader(cluster) == 2
        cluster.stop(hosts[0])
        cluster.start(hosts[0])
        cluster.wait_for_full_sets()
        connect(cluster, hosts[0], "later")
        wait_for(cluster, {"later": {hosts[0]}, f"only-{hosts[0]}": {hosts[0]}})
        assert "traceback" not in cluster.brokers[hosts[0]].errors.read_text().lower()


@pytest.mark.soak
def test_a_kafka_creates_the_topic_as_the_controller(tmp_path: Path) -> None:
    with Cluster(tmp_path, KAFKA, SETTINGS, guests={0: HEADGATE}) as cluster:
        connect(cluster, 0, "first")
        wait_for(cluster, {"first": {0}})
