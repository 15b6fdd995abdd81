"""Fetch 0 to 3 over markers, which become no message: answered in time, and read on from there by the next fetch.

Apache Kafka 3.9 answers after one piece of the partition's limit: with the 12 bytes of a message that is too large
(offset -1), or with nothing if not even one marker fits. Its client then cannot pass the markers.
"""

from __future__ import annotations

from typing import Any

import pytest

from headgate.gateway.api.conversion import Conversions
from headgate.gateway.api.fetch.conversion import SKIPPED_BYTES
from headgate.gateway.api.fetch.tests.fetches import NOW_MS, from_offset, put, request, rows, wanted
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import HandlerBroker, parked
from headgate.protocol.records import control
from headgate.protocol.records.batch import Record
from headgate.protocol.records.control import Marker
from headgate.protocol.records.down_conversion import down_convert_steps
from headgate.storage.log.validation import BROKER

OLD = range(4)
MARKER = control.build(Marker(True, 0), producer_id=7, producer_epoch=0, timestamp=NOW_MS)
IN_A_PIECE = SKIPPED_BYTES // len(MARKER)
MANY = 3 * IN_A_PIECE
LONG_MS = 60_000


@pytest.fixture
def marked(node: HandlerBroker) -> HandlerBroker:
    """A node with many markers before the only record."""
    node.services.metadata.create_topic("t", 1)
    for _ in range(MANY):
        node.services.partitions.get("t", 0).append(memoryview(bytearray(MARKER)), 1, NOW_MS, BROKER)
    put(node, Record(timestamp=NOW_MS, value=b"behind"))
    return node


@pytest.fixture(autouse=True)
def one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch that does not wait reads one large piece behind its first one."""
    monkeypatch.setattr("headgate.gateway.api.fetch.conversion.MAX_SKIPPED_BYTES", SKIPPED_BYTES)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each call that begins a conversion."""
    begun: list[int] = []
    for name in ("run", "submit"):
        original = getattr(Conversions, name)

        def counted(*arguments: Any, original: Any = original, **options: Any) -> Any:
            begun.append(1)
            return original(*arguments, **options)

        monkeypatch.setattr(Conversions, name, counted)
    return begun


def fetched(node: HandlerBroker, version: int, offset: int = 0, max_bytes: int = 1, **options: Any) -> bytes:
    """The records of the answer, at once or after the wait."""
    row = from_offset(offset, max_bytes=max_bytes)
    outcome: Any = node.handle(request(wanted(node, "t", version, row), **options), version)
    if is_task(outcome):
        answer = parked(node, outcome)
        node.time.advance()
        (outcome,) = answer
    (found,) = rows(outcome)
    assert found.error_code == 0
    return bytes(found.records)


@pytest.mark.slow
@pytest.mark.parametrize("version", OLD)
def test_markers_are_read_in_large_pieces(marked: HandlerBroker, plans: list[int], version: int) -> None:
    assert b"behind" in fetched(marked, version, max_bytes=1 << 10, max_wait_ms=LONG_MS)
    assert len(plans) < 10


@pytest.mark.slow
@pytest.mark.parametrize("version", OLD)
def test_a_client_that_does_not_wait_passes_the_markers_too(
    marked: HandlerBroker, plans: list[int], version: int
) -> None:
    """Each fetch reads one large piece, answers, and the next fetch of the same offset reads on."""
    assert [len(fetched(marked, version)) > 0 for _ in range(3)] == [False, False, True]
    assert len(plans) < 10


@pytest.mark.slow
def test_another_leader_epoch_begins_again(marked: HandlerBroker) -> None:
    """The log may have lost the markers meanwhile, and have records at their offsets."""
    assert fetched(marked, 2) == b""
    skipped = marked.client.skipped
    assert skipped is not None
    (before,) = skipped.values()
    assert (before.first_offset, before.next_offset) == (0, 1 + IN_A_PIECE)
    marked.services.partitions.get("t", 0).leader_epoch += 1
    assert fetched(marked, 2) == b""
    (after,) = skipped.values()
    assert after.next_offset == before.next_offset, "it began at offset 0 again"
    assert fetched(marked, 2) == b""
    assert skipped["t", 0].next_offset > before.next_offset


@pytest.mark.slow
def test_another_offset_is_read_from_there(marked: HandlerBroker) -> None:
    assert fetched(marked, 2) == b""
    assert b"behind" in fetched(marked, 2, MANY, max_bytes=1 << 10)


def test_a_conversion_of_markers_has_steps() -> None:
    """Otherwise a thread keeps the loop waiting, and a client that has gone is noticed only at the end."""
    steps = down_convert_steps(bytes(MARKER) * 2_000, 1, 0, 1 << 20)
    assert sum(1 for _ in steps) >= len(MARKER) * 2_000 // (1 << 14)
