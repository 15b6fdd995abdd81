"""Counts of requests by client: one addition a request, on a list that the connection holds.

Each API version of a broker that some client has asked has a number; a client's list has its counts by these numbers. A
client's list grows at its first request of a version: that request meets an IndexError, and no other one a check.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

NO_REQUESTS: Final[list[int]] = []
"""The counts of a client before its first request: always empty."""


_NEGOTIATION: Final = (17, 18, 36)  # SaslHandshake, ApiVersions, SaslAuthenticate


class CountedClient(Protocol):
    """A client with the counts of its requests."""

    requests: list[int]
    folded: list[int]
    """The counts at the last `take_new`."""


class RequestCount(NamedTuple):
    """How many requests of an API version a client has sent."""

    api_key: int
    version: int
    requests: int


class RequestCounts:
    """The numbers of the API versions of one broker."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}

    def number(self, api_key: int, version: int) -> int:
        """The number of an API version. The caller serves the version: so there are few."""
        return self._numbers.setdefault((api_key, version), len(self._numbers))

    def count_first(self, client: CountedClient, number: int) -> None:
        """Count a request whose number the client's list does not have yet."""
        if client.requests is NO_REQUESTS:
            client.requests = []
        client.requests += [0] * (number + 1 - len(client.requests))
        client.requests[number] += 1

    def count(self, client: CountedClient, api_key: int, version: int) -> None:
        """Count a request that has no route."""
        number = self.number(api_key, version)
        try:
            client.requests[number] += 1
        except IndexError:
            self.count_first(client, number)

    def of(self, client: CountedClient) -> Iterator[RequestCount]:
        """The counts of a client that are not 0."""
        for (api_key, version), requests in zip(self._numbers, client.requests, strict=False):
            if requests:
                yield RequestCount(api_key, version, requests)

    def has_begun(self, client: CountedClient) -> bool:
        """Whether a client has asked for more than versions and a login: before that, brokers look like clients."""
        rows = zip(self._numbers, client.requests, strict=False)
        return any(requests and api_key not in _NEGOTIATION for (api_key, _), requests in rows)

    def take_new(self, client: CountedClient) -> list[RequestCount]:
        """The counts of a client since the last call."""
        before = client.folded
        missing = len(client.requests) - len(before)
        rows = zip(self._numbers, client.requests, [*before, *[0] * missing], strict=False)
        client.folded = list(client.requests)
        return [RequestCount(*key, requests - folded) for key, requests, folded in rows if requests > folded]
