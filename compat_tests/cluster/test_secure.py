"""A cluster changes the listener between its brokers by rolling restarts, under load: no client sees an error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compat_tests.cluster.cluster import HEADGATE, IDS, KAFKA
from compat_tests.cluster.replicas import assert_equal
from compat_tests.cluster.secure import BOTH, PLAIN, SECURE, USER, SecureCluster
from compat_tests.cluster.test_guest import PLACEMENT as OF_TRANSACTIONS
from compat_tests.cluster.test_guest import transact, transactional
from compat_tests.cluster.traffic import CONFIGS, PACE, Traffic
from compat_tests.families.confluent import Confluent
from compat_tests.families.family import FromStart
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.topics import placed_topic
from compat_tests.harness.waiting import until
from compat_tests.storage.load import Load

pytestmark = pytest.mark.sockets

PLACEMENT = [(one, (one + 1) % 3, (one + 2) % 3) for one in IDS]


@contextmanager
def load_on(cluster: SecureCluster) -> Iterator[Load]:
    """One producer of librdkafka with acks=all, for the length of a with-block; all is acknowledged and there."""
    topic = placed_topic(cluster.bootstrap, PLACEMENT, CONFIGS)
    cluster.wait_for_topic(topic, len(PLACEMENT))
    with Load(cluster.bootstrap, topic, len(PLACEMENT), producers=1, pace=PACE) as load:
        yield load
    load.assert_no_failure()
    assert assert_equal(cluster, topic) >= sum(worker.acknowledged for worker in load.workers)


def test_brokers_change_their_listener_in_turn_and_no_send_fails(tmp_path: Path, figure: Callable[[str], None]) -> None:
    with SecureCluster(
        tmp_path, HEADGATE, "SSL", listeners=BOTH, between=PLAIN, has_client_certificates=True
    ) as cluster:
        with load_on(cluster) as load:
            load.wait_for_each(50)
            for name in (SECURE, PLAIN):
                cluster.roll(between=name)
                load.wait_for_each(50)
        count = sum(worker.acknowledged for worker in load.workers)
    figure(f"to SASL_SSL and back: {count} records in 3 equal logs")


@pytest.mark.soak
def test_a_cluster_goes_to_sasl_ssl_and_back(tmp_path: Path, figure: Callable[[str], None]) -> None:
    """As Kafka's documentation has it: add the listener, change to it, remove the old one; groups and Java as well."""
    more: dict[str, Any] = {"listeners": (PLAIN,), "between": PLAIN, "has_client_certificates": True}
    with SecureCluster(tmp_path, HEADGATE, "SASL_SSL", **more) as cluster:
        with Traffic(cluster, PLACEMENT * 2) as traffic:
            for old, new in ((PLAIN, SECURE), (SECURE, PLAIN)):
                cluster.roll(listeners=BOTH, between=old)
                traffic.flow()
                cluster.roll(between=new)
                traffic.flow()
                cluster.roll(listeners=(new,))
                traffic.flow()
        count = traffic.check()
    figure(f"18 restarts to SASL_SSL and back: {count} records in 3 equal logs")


A_GUEST = pytest.param(KAFKA, {0: HEADGATE}, id="one-headgate")
A_HOST = pytest.param(HEADGATE, {1: KAFKA}, id="one-kafka")


@pytest.mark.soak
@pytest.mark.parametrize("kind,guests", [A_GUEST, A_HOST])
def test_both_kinds_reach_each_other_over_sasl_ssl(kind: str, guests: Mapping[int, str], tmp_path: Path) -> None:
    """With logins by SCRAM, certificates on both ends, and an authorizer to which brokers alone are super users."""
    authorizer = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": f"User:{USER}",
        "connections.max.reauth.ms": "10000",
        "transaction.state.log.num.partitions": "1",
    }
    more: dict[str, Any] = {"guests": guests, "has_client_certificates": True}
    with SecureCluster(tmp_path, kind, "SASL_SSL", authorizer, **more) as cluster:
        # Nobody else may act as a broker: without its login none could
        allow = ("--add", "--allow-principal", "User:nobody", "--operation", "ClusterAction", "--cluster")
        tool_output("org.apache.kafka.tools.AclCommand", "--bootstrap-server", cluster.bootstrap, *allow)
        topic = placed_topic(cluster.bootstrap, OF_TRANSACTIONS, CONFIGS)
        cluster.wait_for_topic(topic, len(OF_TRANSACTIONS))
        with Traffic(cluster, PLACEMENT * 2) as traffic:
            begun_s = time.monotonic()
            producer = transactional(cluster)
            for number in range(3):
                other = next(iter(guests)) if number % 2 else next(one for one in IDS if one not in guests)
                cluster.kill(other)
                cluster.wait_for_session_end(other)
                cluster.start(other)
                cluster.wait_for_full_sets()
                transact(producer, topic, str(number), is_committed=number != 1)
                traffic.flow()
            until(lambda: time.monotonic() - begun_s > 25, "sessions to be renewed twice", 60)
            traffic.flow()
        traffic.check()
        limits = dict.fromkeys(range(len(OF_TRANSACTIONS)), 2)
        committed = Confluent().consume(cluster.bootstrap, topic, FromStart(), limits)
        assert sorted(record.value or b"" for record in committed) == [b"0"] * len(limits) + [b"2"] * len(limits)
        for broker in cluster.brokers.values():
            lines = "\n".join(broker.error_lines())
            assert "is denied CLUSTER_ACTION" not in lines
            assert "refuses the login" not in lines
