"""Three brokers are stopped in order and started again, one after the other, under load: no client sees an error."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.cluster.cluster import HEADGATE, IDS, KAFKA, Cluster
from compat_tests.cluster.traffic import Traffic

pytestmark = pytest.mark.sockets

KINDS = [HEADGATE, pytest.param(KAFKA, marks=pytest.mark.soak)]
# Without a controller and its leads a stop asks three times, with pauses of five seconds
STOP_LIMIT_S = 5.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_rolling_restart_fails_no_send(kind: str, tmp_path: Path, figure: Callable[[str], None]) -> None:
    with Cluster(tmp_path, kind) as cluster:
        placement = [(one, (one + 1) % 3, (one + 2) % 3) for one in IDS] * 2
        stops_s: list[float] = []
        with Traffic(cluster, placement) as traffic:
            for one in IDS:
                stops_s.append(stop(cluster, one))
                assert all(state.leader not in {one, -1} for state in cluster.states(traffic.topic))
                traffic.flow()
                cluster.start(one)
                cluster.wait_for_full_sets()
            traffic.flow()
        count = traffic.check()
    assert kind == KAFKA or max(stops_s) < STOP_LIMIT_S
    figure(f"{kind}: a rolling restart, {count} records in 3 logs; stops {[round(one, 2) for one in stops_s]} s")


def stop(cluster: Cluster, broker_id: int) -> float:
    """Stop a broker in order; the seconds until its process has ended."""
    began_s = time.monotonic()
    cluster.stop(broker_id)
    return time.monotonic() - began_s
