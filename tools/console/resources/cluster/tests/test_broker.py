"""One broker of a modelled cluster."""

import pytest

from headgate.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resources.cluster.broker import broker_apis, broker_configs
from headgate.tools.console.resources.tests.answering_cluster import answering_cluster
from headgate.tools.tests.model_cluster import ModelCluster, opened

BROKER = Parameters([("broker", "0")])


def test_apis_with_their_versions(model: ModelCluster) -> None:
    with opened() as cluster:
        found = broker_apis(cluster, Parameters([("broker", "2")]))
    assert found["missing"] == {}
    metadata = next(row for row in found["apis"] if row["api_key"] == 3)
    assert metadata["api"] == "Metadata"
    assert metadata["min_version"] <= metadata["max_version"]


def test_configs_are_those_of_the_broker() -> None:
    row = DescribeConfigsResourceResult(name="num.io.threads", value="8", config_source=4, config_type=3)
    answer = DescribeConfigsResponse(results=[DescribeConfigsResult(resource_type=4, resource_name="0", configs=[row])])
    with answering_cluster({DescribeConfigsRequest: answer}) as cluster:
        found = broker_configs(cluster, BROKER)
    assert [(each["name"], each["value"], each["source"]) for each in found["configs"]] == [
        ("num.io.threads", "8", "STATIC_BROKER_CONFIG")
    ]


def test_a_broker_that_is_gone_is_named(model: ModelCluster) -> None:
    with opened() as cluster:
        for ask, part in ((broker_apis, "apis"), (broker_configs, "configs")):
            found = ask(cluster, Parameters([("broker", "77")]))
            assert "no live broker has the id 77" in found["missing"][part]
            with pytest.raises(BadParameter):
                ask(cluster, Parameters([("broker", "x")]))
