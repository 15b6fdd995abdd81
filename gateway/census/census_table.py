"""The rows of this broker's census: a bounded table, and the rows that the topic does not have yet. Pure.

A client may have any names: so an address has `max_rows_of_address` rows, and then one row for all further client ids,
by software; with twice as many rows, one for all further clients. The table has `max_rows` rows. Then the client that
was seen longest ago makes room.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from headgate.protocol.census.rows import OTHERS, CensusClient, CensusRow, VersionUse

MAX_ROWS: Final = 10_000
MAX_ROWS_OF_ADDRESS: Final = 128
MAX_NAME: Final = 200
"""The length of a name in a row; the rest of a longer one is cut off."""
_FIELDS: Final = len(VersionUse._fields)


class UnwrittenRow(NamedTuple):
    """A row that the topic does not have yet. Without uses: the topic has a row that made room."""

    client: CensusClient
    uses: Sequence[VersionUse] | None


class CensusTable:
    """The clients of one broker, the one that was seen longest ago first."""

    def __init__(self, max_rows: int = MAX_ROWS, max_rows_of_address: int = MAX_ROWS_OF_ADDRESS) -> None:
        self.dropped = 0
        """Rows that made room."""
        self._max_rows = max_rows
        self._max_rows_of_address = max_rows_of_address
        self._rows: dict[
            CensusClient, array[int]
        ] = {}  # five numbers for each use: a tuple of ints takes ten times more
        self._by_address: Counter[str] = Counter()
        self._news: dict[CensusClient, None] = {}
        self._changed: dict[CensusClient, None] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def count(self, client: CensusClient, requests: Iterable[tuple[int, int, int]], now_ms: int) -> None:
        """Add requests: (API key, version, number) each. A new client, or a new version, is news."""
        client = self._bounded(client)
        numbers = self._rows.pop(client, None)
        if numbers is None:
            numbers = array("q")
            self._by_address[client.address] += 1
            self._news[client] = None
        for api_key, version, more in requests:
            if _add(numbers, api_key, version, more, now_ms):
                self._news[client] = None
        self._rows[client] = numbers
        self._changed[client] = None
        self._make_room()

    def load(self, row: CensusRow) -> None:
        """Take a row from the topic: what an earlier process of this broker has counted."""
        numbers = array("q", [number for use in row.uses for number in use])
        now = self._rows.get(row.client)
        if now is None:
            self._by_address[row.client.address] += 1
        else:
            new = sum(_add(numbers, use.api_key, use.version, use.requests, use.last_ms) for use in list(_uses(now)))
            if not new:
                self._news.pop(row.client, None)
        self._rows[row.client] = numbers

    def end_load(self) -> None:
        """All rows are loaded: the bound holds from now on."""
        self._rows = dict(sorted(self._rows.items(), key=lambda row: max(row[1][4::_FIELDS], default=0)))
        self._make_room()

    def rows(self, node_id: int) -> Iterator[CensusRow]:
        """The rows, the client that was seen last first. A row that makes room meanwhile is left out."""
        for client in reversed(list(self._rows)):
            numbers = self._rows.get(client)
            if numbers is not None:
                yield CensusRow((node_id,), client, sorted(_uses(numbers)))

    def take_unwritten(self, most: int, *, news_alone: bool) -> list[UnwrittenRow]:
        """Take rows to write, the news first; with `news_alone` no rows whose counts alone have changed."""
        taken = [*self._news][:most]
        if not news_alone:
            taken += [client for client in self._changed if client not in self._news][: most - len(taken)]
        for client in taken:
            self._news.pop(client, None)
            self._changed.pop(client, None)
        rows = ((client, self._rows.get(client)) for client in taken)
        return [UnwrittenRow(client, None if numbers is None else list(_uses(numbers))) for client, numbers in rows]

    def give_back(self, unwritten: Iterable[UnwrittenRow]) -> None:
        """The topic did not take these rows: they are written later."""
        for row in unwritten:
            if row.uses is not None or row.client not in self._rows:
                self._news[row.client] = None

    def note_lost_topic(self) -> None:
        """The topic has none of the rows: all are news, if any is."""
        if self._news:
            self._news |= dict.fromkeys(self._rows)

    def _bounded(self, client: CensusClient) -> CensusClient:
        """The client whose row counts: the client itself, or one for all others of its address."""
        client = CensusClient(*(None if text is None else text[:MAX_NAME] for text in client))  # type: ignore[arg-type]
        rows = self._by_address[client.address]
        if client in self._rows or rows < self._max_rows_of_address:
            return client
        client = client._replace(client_id=OTHERS)
        if client in self._rows or rows < 2 * self._max_rows_of_address:
            return client
        return client._replace(software_name=OTHERS, software_version=None)

    def _make_room(self) -> None:
        while len(self._rows) > self._max_rows:
            client = next(iter(self._rows))
            del self._rows[client]
            self._changed.pop(client, None)
            self._news[client] = None  # its record goes
            self._by_address[client.address] -= 1
            if not self._by_address[client.address]:
                del self._by_address[client.address]
            self.dropped += 1


def _add(numbers: array[int], api_key: int, version: int, requests: int, now_ms: int) -> bool:
    """Add requests to the numbers of a row. Returns whether the row did not have the version."""
    for start in range(0, len(numbers), _FIELDS):
        if numbers[start] == api_key and numbers[start + 1] == version:
            numbers[start + 2] += requests
            numbers[start + 4] = max(numbers[start + 4], now_ms)
            return False
    numbers.extend((api_key, version, requests, now_ms, now_ms))
    return True


def _uses(numbers: array[int]) -> Iterator[VersionUse]:
    for start in range(0, len(numbers), _FIELDS):
        yield VersionUse(*numbers[start : start + _FIELDS])
