from __future__ import annotations

from typing import Any

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headgate.tools.client.client import Client
from headgate.tools.doctor.cluster.broker_configs import (
    BrokerRefusal,
    BrokerSettings,
    ask_settings,
    identify,
    parse_endpoints,
)
from headgate.tools.tests.fake_broker import fake_broker


def answer_as(node: int, code: int = 0, *, serves: bool = True) -> Any:
    def answer(request: Any, _version: int) -> Any:
        if isinstance(request, ApiVersionsRequest):
            keys: list[Any] = [ApiVersionsRequest, *([DescribeConfigsRequest] if serves else [])]
            return ApiVersionsResponse(
                api_keys=[ApiVersion(cls.api_key, cls.versions.first, cls.versions.last) for cls in keys]
            )
        [wanted] = request.resources
        failed = code or (ErrorCode.NONE if wanted.resource_name == str(node) else ErrorCode.INVALID_REQUEST)
        rows = [DescribeConfigsResourceResult(name="headgate.http.listeners", value="http://127.0.0.1:1")]
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    error_code=failed, resource_type=4, resource_name=wanted.resource_name, configs=rows
                )
            ]
        )

    return answer


@pytest.mark.sockets
def test_a_broker_answers_for_itself_alone() -> None:
    with fake_broker(answer_as(2)) as address, Client(address) as client:
        refused = ask_settings(client, 1)
        assert isinstance(refused, BrokerRefusal)
        assert refused.is_other_node
        found = identify(client, [0, 1, 2])
        assert isinstance(found, BrokerSettings)
        assert (found.node, found.is_headgate) == (2, True)
        assert identify(client, [7]) is None


@pytest.mark.sockets
def test_a_user_who_may_not_ask_learns_nothing() -> None:
    with fake_broker(answer_as(2, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)) as address, Client(address) as client:
        found = identify(client, [0, 1])
    assert isinstance(found, BrokerRefusal)
    assert found.is_forbidden


@pytest.mark.sockets
def test_an_old_broker_has_no_settings() -> None:
    with fake_broker(answer_as(2, serves=False)) as address, Client(address) as client:
        found = ask_settings(client, 2)
    assert isinstance(found, BrokerRefusal)
    assert not found.is_other_node


def test_endpoints_by_name() -> None:
    assert parse_endpoints("PLAINTEXT://h:9092, ssl://[::1]:9093,,x") == {"PLAINTEXT": "h:9092", "SSL": "[::1]:9093"}
    settings = BrokerSettings(1, {"inter.broker.listener.name": None, "security.inter.broker.protocol": "SSL"})
    assert settings.inter_broker_listener == "SSL"
    assert settings.endpoints("listeners") == {}
