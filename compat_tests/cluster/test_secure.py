"""A cluster changes the listener between its brokers by rolling restarts, under load: no client sees an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compat_tests.cluster.cluster import HEADGATE, IDS
from compat_tests.cluster.replicas import assert_equal
from compat_tests.cluster.secure import BOTH, PLAIN, SECURE, SecureCluster
from compat_tests.cluster.traffic import CONFIGS, PACE
from compat_tests.harness.topics import placed_topic
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
