"""Rows of the census: values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

TOPIC: Final = "__headgate_census"
LINK: Final = "census"
"""The name of the links by which brokers of a cluster write to the topic."""
OTHERS: Final = "(others)"
"""The client id of the row of further clients at an address that has too many."""


class CensusClient(NamedTuple):
    """A client as the census distinguishes clients. The software is None if it is not known."""

    principal: str
    client_id: str | None
    software_name: str | None
    software_version: str | None
    address: str
    listener: str


class VersionUse(NamedTuple):
    """The use of an API version by a client. The times are in ms, as exact as the interval of the census."""

    api_key: int
    version: int
    requests: int
    first_ms: int
    last_ms: int


class CensusRow(NamedTuple):
    """A client, the versions that it has used, and the brokers that have counted it."""

    node_ids: Sequence[int]
    client: CensusClient
    uses: Sequence[VersionUse]

    @property
    def requests(self) -> int:
        """The number of all requests."""
        return sum(use.requests for use in self.uses)

    @property
    def first_ms(self) -> int:
        """The time of the first request, in ms."""
        return min((use.first_ms for use in self.uses), default=0)

    @property
    def last_ms(self) -> int:
        """The time of the last request, in ms."""
        return max((use.last_ms for use in self.uses), default=0)


def merged(parts: Mapping[int, Sequence[VersionUse]]) -> list[VersionUse]:
    """What several brokers have counted of one client, in the order of API keys and versions."""
    found: dict[tuple[int, int], VersionUse] = {}
    for uses in parts.values():
        for use in uses:
            other = found.get(use[:2], use._replace(requests=0))
            found[use[:2]] = use._replace(
                requests=use.requests + other.requests,
                first_ms=min(use.first_ms, other.first_ms),
                last_ms=max(use.last_ms, other.last_ms),
            )
    return sorted(found.values())
