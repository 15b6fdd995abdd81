"""ApiVersions: the supported APIs and versions, derived from the registrations of the handlers.

v1 throttle   v3 flexible, name and version of the client's software (KIP-511), features (KIP-584)   v4 features whose
range begins at 0 (KAFKA-17011)   v5 the cluster and node that the client expects (KIP-1242)

Exactly the supported versions are advertised.
"""

import re
from collections.abc import Mapping

from headgate.gateway.api.authorization_rules import unrestricted
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.metadata import features
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_MAX_SOFTWARE_LENGTH = 250
_ZERO_BASED_FROM = 4


@handles(ApiVersionsRequest, versions="0-5", authorize=unrestricted)
def api_versions(request: ApiVersionsRequest, context: HandlerContext) -> ApiVersionsResponse:
    """Advertise the supported APIs, and store the name and version of the client's software."""
    if context.version >= 3:
        _introduce(request, context)
    _check_destination(request, context)
    metadata = context.broker.metadata
    return ApiVersionsResponse(
        api_keys=context.broker.served_versions,
        # Clients below version 4 reject a feature range that begins at 0 (KAFKA-17011)
        supported_features=_SUPPORTED if context.version >= _ZERO_BASED_FROM else [],
        finalized_features_epoch=metadata.end_offset,
        finalized_features=[
            FinalizedFeatureKey(name, level, level) for name, level in features.levels(metadata.image).items() if level
        ],
    )


_SUPPORTED = [SupportedFeatureKey(name, 0, level) for name, level in features.HIGHEST.items()]


def unsupported_version(served_versions: list[ApiVersion]) -> ApiVersionsResponse:
    """The response, in version 0, to an unsupported version of ApiVersions: the client retries (KIP-511)."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=served_versions)


def advertised(served_versions: Mapping[int, tuple[int, int]]) -> list[ApiVersion]:
    """The versions of APIs by key, as responses have them."""
    return [
        ApiVersion(api_key=key, min_version=lowest, max_version=highest)
        for key, (lowest, highest) in sorted(served_versions.items())
    ]


def _introduce(request: ApiVersionsRequest, context: HandlerContext) -> None:
    name, version = request.client_software_name, request.client_software_version
    for what, text in (("name", name), ("version", version)):
        if len(text) > _MAX_SOFTWARE_LENGTH or _SOFTWARE.fullmatch(text) is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"the {what} of the client's software is illegal: {text[:80]!r}"
            )
    context.client.software_name, context.client.software_version = name, version


def _check_destination(request: ApiVersionsRequest, context: HandlerContext) -> None:
    """Send a client back to its bootstrap servers if it expected another broker."""
    cluster_id, node_id = context.broker.metadata.image.cluster_id, context.broker.config.node_id
    if request.cluster_id not in (None, cluster_id) or (request.node_id >= 0 and request.node_id != node_id):
        message = f"this is node {node_id} of cluster {cluster_id}, not node {request.node_id} of {request.cluster_id}"
        raise KafkaError(ErrorCode.REBOOTSTRAP_REQUIRED, message)
