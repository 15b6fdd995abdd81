"""Features: finalized levels, and those that brokers support."""

from headgate.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.features import features
from headgate.tools.console.resources.tests.answering_cluster import answering_cluster


def test_finalized_and_supported_levels() -> None:
    told = ApiVersionsResponse(
        supported_features=[
            SupportedFeatureKey("transaction.version", 0, 2),
            SupportedFeatureKey("group.version", 1, 1),
        ],
        finalized_features_epoch=7,
        finalized_features=[FinalizedFeatureKey("transaction.version", 2, 2)],
    )
    with answering_cluster({ApiVersionsRequest: told}) as cluster:
        assert features(cluster, Parameters()) == {
            "features": [
                {
                    "feature": "group.version",
                    "finalized_level": None,
                    "supported": [{"broker": 0, "min_level": 1, "max_level": 1}],
                },
                {
                    "feature": "transaction.version",
                    "finalized_level": 2,
                    "supported": [{"broker": 0, "min_level": 0, "max_level": 2}],
                },
            ],
            "finalized_epoch": 7,
            "missing": {},
        }


def test_an_old_broker_has_no_features() -> None:
    with answering_cluster({}, {ApiVersionsRequest: 2}) as cluster:
        shown = features(cluster, Parameters())
    assert (shown["features"], shown["missing"]) == (
        None,
        {"broker 0": "this broker is too old: features came with Kafka 2.7"},
    )
