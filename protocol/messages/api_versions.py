"""ApiVersions: the versions that the broker serves. It is the first request of every client since 0.10.

v1 throttle   v3 flexible, software name (KIP-511), features (KIP-584)   v4 features whose range begins at 0
(KAFKA-17011)   v5 the cluster and node that the client means to talk to (KIP-1242)
"""

from headgate.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, nullable_string, string, v


class ApiVersionsRequest(Message, key=18, versions="0-5", flexible="3+"):
    """Ask for the served versions. `node_id` is -1 if the client does not know the node."""

    client_software_name: string = v("3+")
    client_software_version: string = v("3+")
    cluster_id: nullable_string = v("5+", default=None)
    node_id: int32 = v("5+", default=-1)


class ApiVersion(Struct):
    """One served API; versions are inclusive."""

    api_key: int16 = v("0+")
    min_version: int16 = v("0+")
    max_version: int16 = v("0+")


class SupportedFeatureKey(Struct):
    """A feature that the broker supports. Before v4 the response must omit a feature with `min_version` 0."""

    name: string = v("3+")
    min_version: int16 = v("3+")
    max_version: int16 = v("3+")


class FinalizedFeatureKey(Struct):
    """A feature that the cluster has finalized, with its level."""

    name: string = v("3+")
    max_version_level: int16 = v("3+")
    min_version_level: int16 = v("3+")


class ApiVersionsResponse(Message, key=18, response=True, versions="0-5", flexible="3+"):
    """The served versions. The header is always version 0: the body may have another version than the request."""

    error_code: int16 = v("0+")
    api_keys: array[ApiVersion] = v("0+")
    throttle_time_ms: int32 = v("1+")
    supported_features: array[SupportedFeatureKey] = v("3+", tag=0)
    finalized_features_epoch: int64 = v("3+", tag=1, default=-1)
    finalized_features: array[FinalizedFeatureKey] = v("3+", tag=2)
    zk_migration_ready: boolean = v("3+", tag=3)
