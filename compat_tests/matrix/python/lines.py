"""What the programs in Python share: the command line of `matrix/client.py`, records as lines of JSON.

Among records to produce, a line with a text, as "gzip", names the codec of those that follow: the start of a process
costs more than what it does here. Among those of transactions, "commit" or "abort" ends one. Every wait of theirs ends
with an error after `LIMIT_S`, which names what is missing.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from compat_tests.harness.records import Received, Sent

LIMIT_S: Final = 50.0
# A member stays so long after its commit: a few heartbeats
STAY_S: Final = 0.35
HEARTBEAT_MS: Final = 100


class Transaction(NamedTuple):
    """`offset`: how many records were sent in this transaction and all before it; `end` is "commit" or "abort"."""

    records: list[Sent]
    offset: int
    end: str


class Program(ABC):
    """A client under test.

    `options` has `bootstrap`, `topic`, `protocol`, `isolation`, and what `more_options` added.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options

    @abstractmethod
    def produce(self, records: Iterable[Sent], codec: str) -> None:
        """Send all, and return when all are acknowledged."""

    @abstractmethod
    def read(self, count: int) -> Iterable[Received]:
        """So many records, from the first of each partition on."""

    @abstractmethod
    def group(self, group: str, count: int) -> Iterable[Received]:
        """The same as the only member of a group, and commit just these."""

    def transact(self, name: str, group: str, transactions: Iterable[Transaction]) -> None:
        """Send each with one producer of this transactional id, with its offset of partition 0 for the group."""
        raise NotImplementedError


def main(program: Callable[[argparse.Namespace], Program], *more_options: str) -> None:
    """Run the subcommand of the process's arguments; what goes wrong ends the process with a traceback."""
    options = parse(more_options)
    client = program(options)
    match options.subcommand:
        case "produce":
            for codec, records in portions(map(json.loads, sys.stdin), options.codec):
                if records:
                    client.produce(records, codec)
        case "read":
            show(client.read(options.count))
        case "group":
            show(client.group(options.group, options.count))
        case "transact":
            client.transact(options.transactional_id, options.group, transactions(map(json.loads, sys.stdin)))


def parse(more_options: Iterable[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    subcommands = parser.add_subparsers(dest="subcommand", required=True)
    own_options: dict[str, dict[str, type]] = {
        "produce": {},
        "read": {"count": int},
        "group": {"group": str, "count": int},
        "transact": {"transactional-id": str, "group": str},
    }
    for name, own in own_options.items():
        subcommand = subcommands.add_parser(name)
        for option in ("bootstrap", "topic"):
            subcommand.add_argument(f"--{option}", required=True)
        for option in ("protocol", "isolation", *more_options):
            subcommand.add_argument(f"--{option}")
        for option, kind in own.items():
            subcommand.add_argument(f"--{option}", required=True, type=kind)
    subcommands.choices["produce"].add_argument("--codec", default="none")
    return parser.parse_args()


class Missing:
    """How many records are still to come."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.deadline_s = time.monotonic() + LIMIT_S

    def __bool__(self) -> bool:
        """Whether to go on; raises when the records are late."""
        if self.count and time.monotonic() > self.deadline_s:
            raise TimeoutError(f"after {LIMIT_S} s {self.count} records are missing")
        return self.count > 0

    def take(self, records: Iterable[Received]) -> Iterator[Received]:
        """As many as are missing; the rest is left."""
        for record in records:
            if self.count:
                self.count -= 1
                yield record


def portions(lines: Iterable[Any], codec: str) -> Iterator[tuple[str, list[Sent]]]:
    """The records by codec, in their order."""
    records: list[Sent] = []
    for line in lines:
        if isinstance(line, str):
            yield codec, records
            codec, records = line, []
        else:
            records.append(sent(line))
    yield codec, records


def transactions(lines: Iterable[Any]) -> Iterator[Transaction]:
    """The records up to each end."""
    count, records = 0, list[Sent]()
    for line in lines:
        if isinstance(line, str):
            count += len(records)
            yield Transaction(records, count, line)
            records = []
        else:
            records.append(sent(line))


def sent(found: dict[str, Any]) -> Sent:
    headers = tuple((header["name"], decode(header["value"])) for header in found["headers"])
    return Sent(found["partition"], found["timestamp_ms"], decode(found["key"]), decode(found["value"]), headers)


def show(records: Iterable[Received]) -> None:
    for record in records:
        found = record._asdict() | {"key": encode(record.key), "value": encode(record.value)}
        found["headers"] = [{"name": name, "value": encode(value)} for name, value in record.headers]
        print(json.dumps(found))


def encode(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
