"""Brokers log in to each other by PLAIN, OAUTHBEARER and GSSAPI; a session that ends is renewed under load."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.cluster.cluster import IDS, gaps
from compat_tests.cluster.logins import OAUTHBEARER, PLAIN, BearerTokens, LoginCluster
from compat_tests.cluster.test_secure import PLACEMENT
from compat_tests.cluster.traffic import Traffic
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.waiting import until
from compat_tests.security import kdc
from compat_tests.security.client_security import GSSAPI
from compat_tests.security.kdc import LIBRARY, Kdc
from compat_tests.security.mechanisms_broker import SERVICE_PRINCIPAL

pytestmark = [pytest.mark.sockets, pytest.mark.soak]

SESSION_MS = 5000
TOKEN_LIFE_S = 6
SESSIONS = 4


def deny_others(cluster: LoginCluster) -> None:
    """Have an ACL for CLUSTER_ACTION: a broker without its login has none."""
    allow = ("--add", "--allow-principal", "User:nobody", "--operation", "ClusterAction", "--cluster")
    tool_output("org.apache.kafka.tools.AclCommand", "--bootstrap-server", cluster.bootstrap, *allow)


def flow_through_sessions(cluster: LoginCluster, traffic: Traffic, session_s: float) -> None:
    """Records flow, and no in-sync set shrinks, while sessions end several times."""
    traffic.flow()
    end_s = time.monotonic() + SESSIONS * session_s
    while time.monotonic() < end_s:
        traffic.flow()
        assert not [gap for view in cluster.views() for gap in gaps(view)]


def run(cluster: LoginCluster, session_s: float) -> int:
    """Traffic through the ends of sessions and the restart of a broker; the number of records."""
    deny_others(cluster)
    with Traffic(cluster, PLACEMENT * 2) as traffic:
        flow_through_sessions(cluster, traffic, session_s)
        cluster.stop(1)
        cluster.start(1)
        cluster.wait_for_full_sets()
        traffic.flow()
    for broker_id in IDS:
        lines = "\n".join(cluster.brokers[broker_id].error_lines())
        assert "is denied CLUSTER_ACTION" not in lines
        assert "refuses the login" not in lines
    return traffic.check()


def test_brokers_log_in_by_plain(tmp_path: Path, figure: Callable[[str], None]) -> None:
    settings = {"connections.max.reauth.ms": str(SESSION_MS)}
    with LoginCluster(tmp_path, PLAIN, settings) as cluster:
        count = run(cluster, SESSION_MS / 1000)
    figure(f"PLAIN between brokers: {count} records in 3 equal logs, sessions of {SESSION_MS} ms")


@pytest.mark.skipif(not kdc.is_installed(), reason=f"no KDC, or no {LIBRARY}: `make kerberos` as root")
def test_brokers_log_in_by_gssapi(tmp_path: Path, figure: Callable[[str], None]) -> None:
    realm = Kdc(tmp_path / "kdc")
    realm.start()
    try:
        realm.add(SERVICE_PRINCIPAL)
        settings = {"connections.max.reauth.ms": str(SESSION_MS)}
        with LoginCluster(tmp_path, GSSAPI, settings, kdc=realm) as cluster:
            count = run(cluster, SESSION_MS / 1000)
    finally:
        realm.stop()
    figure(f"GSSAPI between brokers: {count} records in 3 equal logs, sessions of {SESSION_MS} ms")


def test_brokers_renew_bearer_tokens(tmp_path: Path, figure: Callable[[str], None]) -> None:
    """A file with a new token renews the sessions; without one they end, and the next token brings all back."""
    with (
        BearerTokens(tmp_path, TOKEN_LIFE_S) as tokens,
        LoginCluster(tmp_path, OAUTHBEARER, tokens=tokens) as cluster,
    ):
        count = run(cluster, TOKEN_LIFE_S)
        tokens.is_renewing = False
        until(lambda: any(gaps(view) for view in cluster.views()), "sets that shrink without a token", 60)
        tokens.renew()
        tokens.is_renewing = True
        took_s = cluster.wait_for_full_sets()
    figure(f"OAUTHBEARER between brokers: {count} records, full sets {took_s:.1f} s after the first new token")
