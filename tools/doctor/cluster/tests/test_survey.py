"""The rows that need several answers; the whole survey is tried in compat_tests/doctor, beside real brokers."""

from __future__ import annotations

import datetime as dt

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.client.client import ClientError
from headgate.tools.doctor.check_result import NOTE, OK, WRONG
from headgate.tools.doctor.cluster.advertised import AdvertisedAddress
from headgate.tools.doctor.cluster.broker_configs import BrokerRefusal, BrokerSettings
from headgate.tools.doctor.cluster.survey import ClusterSurvey, check_access, check_views
from headgate.tools.doctor.connecting.address import Dialling

DIALLING = Dialling(ClientSecurity(), 1.0, dt.datetime.now(dt.UTC))
FORBIDDEN = AdvertisedAddress(1, "b:1", settings=BrokerRefusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


def test_bootstrap_addresses_of_one_cluster_and_of_two() -> None:
    one = ("A", {0: "a:1"})
    assert [row.state for row in check_views({"a:1": one, "b:1": one})] == [OK]
    [row] = check_views({"a:1": one, "b:1": ("B", {0: "b:1"})})
    assert row.state == WRONG
    assert row.found.endswith("a:1 of A, b:1 of B; each has a broker with node.id 0")
    [row] = check_views({"a:1": one, "b:1": ("B", {1: "b:1"})})
    assert row.found.endswith("a:1 of A, b:1 of B")


def test_a_user_who_sees_nothing() -> None:
    allowed = AdvertisedAddress(1, "b:1", settings=BrokerSettings(1, {}))
    assert list(check_access([allowed], sees_topics=False, sees_disks=False)) == []
    assert [row.state for row in check_access([FORBIDDEN], sees_topics=False, sees_disks=False)] == [WRONG]
    assert [row.state for row in check_access([FORBIDDEN], sees_topics=True, sees_disks=False)] == [NOTE]


@pytest.mark.sockets
def test_every_bootstrap_address_is_dialled() -> None:
    survey = ClusterSurvey("127.0.0.1:1,[::1]:1", DIALLING)
    rows = list(survey.rows())
    assert [row.check for row in rows] == ["name", "connection"] * 2
    assert survey.cluster_id is None


def test_an_address_that_is_none() -> None:
    with pytest.raises(ClientError, match="no address of a broker"):
        ClusterSurvey("a:b:c", DIALLING)
