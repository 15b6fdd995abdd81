"""ApiVersions: what the broker serves, asked first by every client since 0.10.

v1 throttle   v3 flexible, software name (KIP-511), features (KIP-584)   v4 features whose range begins at 0
(KAFKA-17011)   v5 the cluster and node that the client means to talk to (KIP-1242)
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, nullable_string, string, v


class ApiVersionsRequest(Message, key=18, versions="0-5", flexible="3+"):
    """Ask for the table of served versions. `node_id` is -1 while the client does not know whom it reached."""

    client_software_name: string = v("3+")
    client_software_version: string = v("3+")
    cluster_id: nullable_string = v("5+", default=None)
    node_id: int32 = v("5+", default=-1)

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> "ApiVersionsResponse":
        return ApiVersionsResponse(error_code=error)


class ApiVersion(Struct):
    """One served API; versions are inclusive."""

    api_key: int16 = v("0+")
    min_version: int16 = v("0+")
    max_version: int16 = v("0+")


class SupportedFeatureKey(Struct):
    """A feature the broker supports. Before v4 those with `min_version` 0 must be left out."""

    name: string = v("3+")
    min_version: int16 = v("3+")
    max_version: int16 = v("3+")


class FinalizedFeatureKey(Struct):
    """A feature the cluster has switched on, with its level."""

    name: string = v("3+")
    max_version_level: int16 = v("3+")
    min_version_level: int16 = v("3+")


class ApiVersionsResponse(Message, key=18, response=True, versions="0-5", flexible="3+"):
    """The table. Its header is always version 0: a client may get another version than it asked for."""

    error_code: int16 = v("0+")
    api_keys: array[ApiVersion] = v("0+")
    throttle_time_ms: int32 = v("1+")
    supported_features: array[SupportedFeatureKey] = v("3+", tag=0)
    finalized_features_epoch: int64 = v("3+", tag=1, default=-1)
    finalized_features: array[FinalizedFeatureKey] = v("3+", tag=2)
    zk_migration_ready: boolean = v("3+", tag=3)
