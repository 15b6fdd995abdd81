"""Features of the cluster (KIP-584): the levels that the cluster has finalized, and those that each broker supports."""

from __future__ import annotations

from typing import Final

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Answers, Cluster
from headgate.tools.console.parameters import Parameters
from headgate.tools.output import Row

_FIRST_WITH_FEATURES: Final = 3
_SOFTWARE: Final = "headgate-tools"
_TOO_OLD: Final = "this broker is too old: features came with Kafka 2.7"


def features(cluster: Cluster, _: Parameters) -> Row:
    """Each feature with its finalized level, and with the levels that each broker supports. Raises ClientError."""
    found, failed = cluster.ask_all_brokers(_ask)
    missing = {f"broker {node}": failure.text for node, failure in failed.items()}
    if not found:
        return {"features": None, "finalized_epoch": None, "missing": missing}
    newest = max(found.values(), key=lambda answer: answer.finalized_features_epoch)
    epoch = newest.finalized_features_epoch
    levels = {feature.name: feature.max_version_level for feature in newest.finalized_features}
    supported: dict[str, list[Row]] = {name: [] for name in levels}
    for node, answer in sorted(found.items()):
        for feature in answer.supported_features:
            row = {"broker": node, "min_level": feature.min_version, "max_level": feature.max_version}
            supported.setdefault(feature.name, []).append(row)
    rows = [
        {"feature": name, "finalized_level": levels.get(name), "supported": supported[name]}
        for name in sorted(supported)
    ]
    return {"features": rows, "finalized_epoch": epoch if epoch >= 0 else None, "missing": missing}


def _ask(client: Client, nodes: list[int]) -> Answers[int, ApiVersionsResponse]:
    version = client.version(ApiVersionsRequest, ApiVersionsRequest.versions.last)
    if version < _FIRST_WITH_FEATURES:
        yield nodes[0], Failure(ErrorCode.UNSUPPORTED_VERSION, _TOO_OLD)
        return
    request = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version="1")
    answer: ApiVersionsResponse = client.ask(request, version)
    yield nodes[0], Failure.of(answer.error_code) if answer.error_code else answer
