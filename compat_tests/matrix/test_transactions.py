"""Each client of the matrix that has transactions commits and aborts some, and reads what is committed, and all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from compat_tests.conftest import checked
from compat_tests.families import Family
from compat_tests.families.family import FromStart
from compat_tests.groups.committed import committed_offsets
from compat_tests.harness.proxy import Proxy
from compat_tests.harness.records import Sent
from compat_tests.harness.topics import new_topic
from compat_tests.matrix.carried import assert_carried_at, partitions_of, records_of
from compat_tests.matrix.client import MODERN, Client
from compat_tests.matrix.rows import ROWS

CLIENTS = [client for client in ROWS if client.abilities.transactions]
# How each transaction ends, and its count of records; the last one leaves the offset of the group where it was
TRANSACTIONS = (("commit", 20), ("abort", 20), ("commit", 20), ("abort", 10))
COMMITTED_OFFSET = 60


@pytest.fixture(params=CLIENTS, ids=[client.name.replace(" ", "-") for client in CLIENTS])
def client(request: pytest.FixtureRequest) -> Client:
    """Each client in turn; one that is not on this machine ends its test by name."""
    found: Client = request.param
    found.command()
    return found


def placed(transactions: Sequence[tuple[str, Sequence[Sent]]], *ends: str) -> Iterator[tuple[int, Sent]]:
    """The records of the transactions with such ends, with their offsets: one marker follows in each partition."""
    next_offsets: dict[int | None, int] = {}
    for end, records in transactions:
        for record in records:
            offset = next_offsets.get(record.partition, 0)
            next_offsets[record.partition] = offset + 1
            if end in ends:
                yield offset, record
        next_offsets = {partition: offset + 1 for partition, offset in next_offsets.items()}


def test_each_commits_and_aborts(client: Client, proxy: Proxy, drivers: dict[str, Family]) -> None:
    """It reads its own records at both isolation levels, and the newest clients do; so are the offsets of its group."""
    topic = new_topic(proxy.target, partitions_of(client.abilities))
    group = f"{topic}-group"
    transactions = [(end, records_of(client.abilities, count, seed)) for seed, (end, count) in enumerate(TRANSACTIONS)]
    committed, everything = list(placed(transactions, "commit")), list(placed(transactions, "commit", "abort"))
    with proxy.recording(client.name):
        client.transact(proxy.bootstrap, topic, f"{topic}-id", group, transactions)
        for wanted, isolation in ((committed, "read_committed"), (everything, "read_uncommitted")):
            found = client.read(proxy.bootstrap, topic, len(wanted), isolation)
            assert_carried_at(wanted, found, client.abilities, client.abilities)
    assert committed_offsets(proxy.target, group, topic) == {0: COMMITTED_OFFSET}
    # By default librdkafka reads what is committed, Java all
    for name, wanted in (("confluent-kafka", committed), ("java-4.4", everything)):
        counts = [record.partition or 0 for _, record in wanted]
        limits = {partition: counts.count(partition) for partition in set(counts)}
        found = checked(drivers[name]).consume(proxy.target, topic, FromStart(), limits)
        assert_carried_at(wanted, found, client.abilities, MODERN)
