"""The versions that a broker serves: the release with these versions, and the oldest clients that can use it.

Source: the ranges in Apache Kafka's message definitions, by release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.fetch import FetchRequest
from headgate.protocol.messages.list_offsets import ListOffsetsRequest
from headgate.protocol.messages.metadata import MetadataRequest
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.schema import Versions
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult

_PRODUCE, _FETCH, _LIST_OFFSETS, _METADATA = 0, 1, 2, 3
_FIND_COORDINATOR, _JOIN_GROUP, _OFFSET_FETCH = 10, 11, 9
# The newest first: an API and the version of it that this release was the first to serve
_MARKS: Final = (
    ("4.1", _PRODUCE, 13),
    ("4.0", _PRODUCE, 12),
    ("3.9", _FETCH, 17),
    ("3.8", _LIST_OFFSETS, 9),
    ("3.7", 68, 0),
    ("3.5", _FETCH, 15),
    ("3.3", 35, 4),
    ("3.1", _FETCH, 13),
    ("3.0", _OFFSET_FETCH, 8),
    ("2.8", _PRODUCE, 9),
    ("2.7", _FETCH, 12),
    ("2.6", 48, 0),
    ("2.5", _OFFSET_FETCH, 7),
    ("2.4", _PRODUCE, 8),
    ("2.3", _FETCH, 11),
    ("2.2", 43, 0),
    ("2.1", _FETCH, 10),
    ("2.0", _FETCH, 8),
    ("1.1", _FETCH, 7),
    ("1.0", _FETCH, 6),
    ("0.11", 22, 0),
    ("0.10.1", 19, 0),
)
# Kafka's Java clients by release: the newest versions that each has of what a consumer needs
_CLIENTS: Final = (
    ("0.8", {_FETCH: 0, _METADATA: 0, _LIST_OFFSETS: 0, _OFFSET_FETCH: 1}),
    ("0.9", {_FETCH: 1, _METADATA: 0, _LIST_OFFSETS: 0, _OFFSET_FETCH: 1, _JOIN_GROUP: 0}),
    ("0.10.0", {_FETCH: 2, _METADATA: 1, _LIST_OFFSETS: 0, _OFFSET_FETCH: 1, _JOIN_GROUP: 0}),
    ("0.10.2", {_FETCH: 3, _METADATA: 2, _LIST_OFFSETS: 1, _OFFSET_FETCH: 2, _JOIN_GROUP: 1}),
    ("0.11", {_FETCH: 5, _METADATA: 4, _LIST_OFFSETS: 2, _OFFSET_FETCH: 3, _JOIN_GROUP: 2}),
    ("1.1", {_FETCH: 7, _METADATA: 5, _LIST_OFFSETS: 2, _OFFSET_FETCH: 3, _JOIN_GROUP: 2}),
    ("2.1", {_FETCH: 10, _METADATA: 7, _LIST_OFFSETS: 4, _OFFSET_FETCH: 5, _JOIN_GROUP: 3}),
    ("3.0", {_FETCH: 12, _METADATA: 11, _LIST_OFFSETS: 7, _OFFSET_FETCH: 8, _JOIN_GROUP: 7}),
)
_USED: Final = (
    ApiVersionsRequest,
    MetadataRequest,
    ProduceRequest,
    FetchRequest,
    ListOffsetsRequest,
    OffsetFetchRequest,
)


class ServedClients(NamedTuple):
    """`oldest`: the oldest release whose consumer can use the broker; `refusing`: the API that refuses older ones."""

    oldest: str
    refusing: str | None


def release_of(served: Mapping[int, Versions]) -> str:
    """The newest Kafka whose marks these versions have: `3.9`, or `older than 0.10.1`."""
    for release, api, version in _MARKS:
        if api in served and served[api].last >= version:
            return release
    return "older than 0.10.1"


def served_clients(served: Mapping[int, Versions]) -> ServedClients:
    """The oldest clients that find a version of each API that they need."""
    names = {request.api_key: request.__name__.removesuffix("Request") for request in _USED}
    refusing = None
    for release, newest in _CLIENTS:
        refused = [api for api, version in newest.items() if api not in served or served[api].first > version]
        if not refused:
            return ServedClients(release, refusing)
        api = refused[0]
        refusing = f"{names.get(api, f'API {api}')} from version {served[api].first} on" if api in served else None
    return ServedClients("newer than 3.0", refusing)


def check_versions(who: str, served: Mapping[int, Versions], *, is_headgate: bool, headgate: str = "") -> CheckResult:
    """What a broker is, and whom it serves. `headgate`: its version, if known."""
    missing = [
        request.__name__.removesuffix("Request")
        for request in _USED
        if request.api_key not in served or served[request.api_key].first > request.versions.last
    ]
    release = release_of(served)
    product = (
        f"Headgate {headgate}".rstrip() + f" with the APIs of Kafka {release}" if is_headgate else f"Kafka {release}"
    )
    if missing:
        cure = "use a newer headgate, or an older broker"
        return CheckResult("versions", WRONG, f"{who} is {product}; this client has no {', '.join(missing)}", cure)
    clients = served_clients(served)
    found = f"{who} is {product}; clients of Kafka {clients.oldest} and newer can use it"
    if clients.oldest not in {"0.8", "0.9", "0.10.0"}:
        refused = f" ({clients.refusing})" if clients.refusing else ""
        cure = f"older clients{refused} cannot: `headgate census` names those that a Headgate serves"
        return CheckResult("versions", NOTE, found, cure)
    return CheckResult("versions", OK, found)
