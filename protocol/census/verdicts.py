"""What a client would meet on a release of Apache Kafka, by the versions that the client uses here. Pure.

A client that chooses its versions uses the latest one that both sides have. So a version below the release's first one
is the best that the client has, or was configured for: the request fails there, and the client breaks. A version above
the release's last one is no fault of a client that asks for the versions first (ApiVersions), as the client takes
another one there. An API that the release lacks is a note: some clients do without, and others fail.

ApiVersions itself breaks no client: brokers answer unknown versions, and clients ask again in an older one (KIP-511).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from headgate.protocol import registry
from headgate.protocol.census import kafka_versions
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.fetch import FetchRequest
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.schema import Versions

READS, WRITES = "reads", "writes"
_FORMAT_SINCE: Final = {FetchRequest.api_key: (2, 4), ProduceRequest.api_key: (2, 3)}
"""The first versions with message format 1, and with record batches (format 2)."""


class RefusedVersion(NamedTuple):
    """A version that a release refuses. `since`: the first release that does, or that has the version."""

    api_key: int
    version: int
    since: str
    is_too_new: bool = False


class OldFormat(NamedTuple):
    """An old message format that a client reads or writes: 0 (before Kafka 0.10) or 1 (before 0.11)."""

    action: str
    message_format: int
    api_key: int
    version: int


class KafkaVerdict(NamedTuple):
    """What a client would meet on a release."""

    release: str
    refused: Sequence[RefusedVersion]
    lacking: Sequence[int]
    """The keys of the used APIs that the release does not have."""
    old_formats: Sequence[OldFormat]

    @property
    def breaks(self) -> bool:
        """Whether requests of the client fail there."""
        return bool(self.refused)


def judge(used: Iterable[tuple[int, int]], release: str) -> KafkaVerdict:
    """The verdict on a client that uses these API keys and versions; `release` is of `kafka_versions.RELEASES`."""
    return _judge(tuple(sorted(set(used))), release)


@functools.lru_cache(1024)
def _judge(used: Sequence[tuple[int, int]], release: str) -> KafkaVerdict:
    served = kafka_versions.release(release)
    asks_versions = any(api_key == ApiVersionsRequest.api_key for api_key, _ in used)
    refused: list[RefusedVersion] = []
    lacking: dict[int, None] = {}
    for api_key, version in used:
        versions = served.get(api_key)
        if api_key == ApiVersionsRequest.api_key:
            continue
        if versions is None:
            lacking[api_key] = None
        elif version < versions.first:
            refused.append(RefusedVersion(api_key, version, _refused_since(api_key, version, release)))
        elif version > versions.last and not asks_versions:
            refused.append(RefusedVersion(api_key, version, _served_since(api_key, version), is_too_new=True))
    return KafkaVerdict(release, refused, list(lacking), list(_old_formats(used)))


def old_format(api_key: int, version: int) -> OldFormat | None:
    """The old message format of a version of Produce or Fetch; None of all others."""
    first, second = _FORMAT_SINCE.get(api_key, (0, 0))
    if version >= second:
        return None
    action = READS if api_key == FetchRequest.api_key else WRITES
    return OldFormat(action, int(version >= first), api_key, version)


def _old_formats(used: Iterable[tuple[int, int]]) -> Iterable[OldFormat]:
    return filter(None, (old_format(api_key, version) for api_key, version in used))


def verdict_fields(verdict: KafkaVerdict) -> dict[str, Any]:
    """A verdict as JSON."""
    return {
        "release": verdict.release,
        "breaks": verdict.breaks,
        "refused": [
            {"api": name_of(row.api_key), "version": row.version, "since": row.since, "is_too_new": row.is_too_new}
            for row in verdict.refused
        ],
        "lacking": [name_of(api_key) for api_key in verdict.lacking],
        "old_formats": [
            {
                "action": row.action,
                "message_format": row.message_format,
                "api": name_of(row.api_key),
                "version": row.version,
            }
            for row in verdict.old_formats
        ],
    }


def name_of(api_key: int) -> str:
    """The name of an API, also of one that is not known."""
    api = registry.APIS.get(api_key)
    return f"API {api_key}" if api is None else api.name


def _refused_since(api_key: int, version: int, release: str) -> str:
    """The first of the releases, up to this one, that refuse an old version without an end."""
    since = release
    releases = kafka_versions.RELEASES
    for name in reversed(releases[: releases.index(release) + 1]):
        if not _is_too_old(api_key, version, name):
            break
        since = name
    minor = ".".join(since.split(".")[:2])
    return minor if _is_too_old(api_key, version, minor) else since


def _is_too_old(api_key: int, version: int, release: str) -> bool:
    return version < kafka_versions.release(release).get(api_key, Versions(0, -1)).first


def _served_since(api_key: int, version: int) -> str:
    """The first release that serves a version."""
    for name in kafka_versions.RELEASES:
        if version in kafka_versions.release(name).get(api_key, Versions(0, -1)):
            return name
    return "no known release"
