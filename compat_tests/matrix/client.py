"""A row of the matrix: one client in one version, and what it can do.

A row is a program. It takes a subcommand, then options, and exits with 0 when all was done; otherwise standard error
says why. What it says there although all was done fails the test too, unless the row has `complains = True`.

    produce --bootstrap a --topic t --codec gzip          sends the records of standard input, until its end
    read    --bootstrap a --topic t --count 100           prints so many records, from the first of each partition on
    group   --bootstrap a --topic t --group g --count 100 prints so many records as the only member of a group, from
                                                          its commits on or else from the first, commits, leaves
    transact --bootstrap a --topic t --transactional-id x --group g     sends the records of standard input with one
                                                          producer; a line "commit" or "abort" ends the transaction of
                                                          the records before it

One that needs ZooKeeper has `--zookeeper a` besides in `group`. With --isolation read_committed, or read_uncommitted,
`read` does not leave it at the client's default. Each transaction commits for the group, in partition 0 of the topic,
the count of the records of this transaction and of all before it.
A row that is told to speak an older version's protocol has `--protocol 0.9` besides. Records are lines of JSON:
{"partition", "offset", "timestamp_ms", "key", "value", "headers": [{"name", "value"}]}; bytes are base64 or null. What
the client cannot say is -1 for a time and [] for headers; a partition or a time to send that is null is the client's
choice. `produce` ends when all is acknowledged (acks=all where the client has it); the order within a partition is that
of its input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from compat_tests.families.json_lines import Lines, received
from compat_tests.harness.records import Received, Sent, Traits
from compat_tests.harness.stored import CODECS


@dataclass(frozen=True)
class Abilities:
    """What a client can express. The default is a client of today."""

    writes: tuple[str, ...] = CODECS
    """Codecs that it can produce with."""
    reads: tuple[str, ...] = CODECS
    """Codecs that it can read; a broker that serves it well sends it nothing else."""
    groups: bool = True
    """Whether it reads as a group and commits to the broker."""
    writes_headers: bool = True
    shows_headers: bool = True
    times: Literal["given", "own", "none"] = "given"
    """Of a record that it writes: as it is told; of its own clock (or the broker's); or none, as message format 0."""
    shows_times: bool = True
    nulls: bool = True
    """Whether it tells no key and no value from empty ones, in headers too, when it writes and when it shows."""
    transactions: bool = False
    """Whether it has a transactional producer, and reads what is committed, or all, as it is told."""
    shows_places: bool = True
    """Whether it shows what it read compressed in its order and with its offsets."""
    traits: Traits = field(default_factory=Traits)
    """More that its producing side lacks; its times are told above."""


MODERN = Abilities()
BEFORE_HEADERS = Abilities(writes=CODECS[:4], reads=CODECS[:4], writes_headers=False, shows_headers=False)
"""Message format 1: Kafka 0.10."""
BEFORE_TIMES = Abilities(
    writes=CODECS[:4], reads=CODECS[:4], writes_headers=False, shows_headers=False, times="none", shows_times=False
)
"""Message format 0: Kafka 0.8 and 0.9."""


class Client(Lines):
    """One client in one version; `name` is unique: family, version, and the protocol that it is told to speak."""

    family: ClassVar[str]
    # Whether it reads in a group only where the broker has a ZooKeeper
    needs_zookeeper: ClassVar[bool] = False

    def __init__(self, version: str, abilities: Abilities = MODERN, protocol: str = "") -> None:
        super().__init__(protocol)
        self.version = version
        # Whether what it commits goes to ZooKeeper, by OffsetCommit 0 or by itself
        self.commits_to_zookeeper = False
        self.abilities = abilities
        self.name = f"{self.family} {version}{f' at {protocol}' if protocol else ''}"

    def produce_each(self, bootstrap: str, topic: str, batches: Mapping[str, Sequence[Sent]]) -> None:
        """Records by codec, one codec after the other."""
        for codec, records in batches.items():
            self.produce(bootstrap, topic, records, codec)

    def transact(
        self, bootstrap: str, topic: str, name: str, group: str, transactions: Sequence[tuple[str, Sequence[Sent]]]
    ) -> None:
        """The records of each transaction and, before them here, how it ends: "commit" or "abort"."""
        arguments = self.arguments("transact", bootstrap, topic, **{"transactional-id": name, "group": group})
        lines = (line for end, records in transactions for line in (*map(self.line_of, records), self.end_of(end)))
        self.feed(arguments, lines)

    def end_of(self, end: str) -> str:
        """The end of a transaction as the program takes it."""
        return json.dumps(end)

    def read(self, bootstrap: str, topic: str, count: int, isolation: str = "") -> list[Received]:
        """So many records from the beginning on, in a new process."""
        options = {"isolation": isolation} if isolation else {}
        arguments = self.arguments("read", bootstrap, topic, count=str(count), **options)
        return [self.record_of(line) for line in self.lines(arguments)]

    def read_in_group(self, bootstrap: str, topic: str, group: str, count: int, zookeeper: str = "") -> list[Received]:
        """The same as the only member of a group, from what it committed on; these are committed by then.

        `zookeeper` is ZooKeeper's address, for those that need one.
        """
        options = {"zookeeper": zookeeper} if self.needs_zookeeper else {}
        arguments = self.arguments("group", bootstrap, topic, group=group, count=str(count), **options)
        return [self.record_of(line) for line in self.lines(arguments)]

    def record_of(self, line: str) -> Received:
        """A record as the program prints it."""
        return received(json.loads(line))
