"""One connection, sans-IO: order, bounds, and what happens at its end."""

import logging
import struct
from collections.abc import Callable
from typing import Any

import pytest

from headgate.gateway.api.context import Client, CloseConnection
from headgate.gateway.api.dispatch import Parked
from headgate.gateway.network.connection import (
    FREE_PARKED_BYTES,
    LARGE_BEGINNING_BYTES,
    LARGE_REST_BYTES,
    MAX_OUTGOING_BYTES,
    MAX_PENDING_BYTES,
    Connection,
)
from headgate.gateway.request_log.request_log import RequestLog
from headgate.gateway.runtime.memory_budget import SMALL_BYTES, MemoryBudget
from headgate.gateway.runtime.request_counts import RequestCounts
from headgate.gateway.runtime.stall_watch import StallWatch
from headgate.gateway.runtime.tasks import Tasks
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.security.quotas.quota_manager import QuotaManager


class ScriptedBatcher:
    """Something may be left to be written."""

    def __init__(self) -> None:
        self.is_open = False
        self.held: list[Callable[[Any], None]] = []

    def write_all(self) -> None:
        """Write, and answer who waits for that."""
        self.is_open = False
        held, self.held = self.held, []
        for done in held:
            done([b"held"])


class ScriptedDispatcher:
    """Echoes frames. `park` parks, `none` answers nothing, `bad` closes, `big` answers with all that is let out.

    `silent` parks what is owed no reply, `stage` leaves something to be written, `hold` too and waits for that; `heavy`
    calls `when_heavy`. Zeros may follow each of these words.
    Other answers are in `answers`.
    """

    def __init__(self) -> None:
        self.quotas: QuotaManager | None = None
        self.audit = None
        self.request_log: RequestLog | None = None
        self.seen: list[bytes] = []
        self.parked: list[Callable[[Any], None]] = []
        self.abandoned = 0
        self.complaints: list[str] = []
        self.answers: dict[bytes, list[Any]] = {}
        self.batcher = ScriptedBatcher()
        self.request_counts = RequestCounts()
        time = ManualTime()
        self.stall_watch = StallWatch(Tasks(time.clock, time.scheduler))
        self.when_heavy: Callable[[], None] = lambda: None

    def complain(self, client: Client, reason: str) -> None:
        self.complaints.append(f"{client}: {reason}")

    def dispatch(self, frame: memoryview, client: Client, done: Callable[[Any], None]) -> Any:
        self.seen.append(bytes(frame))
        match bytes(frame).rstrip(b"\0"):
            case b"park":
                self.parked.append(done)
                return Parked(self._abandon)
            case b"silent":
                self.parked.append(done)
                return Parked(self._abandon, is_silent=True)
            case b"none":
                return []
            case b"bad":
                raise CloseConnection("it is bad")
            case b"big":
                return [bytes(MAX_OUTGOING_BYTES)]
            case b"stage":
                self.batcher.is_open = True
            case b"hold":
                self.batcher.is_open = True
                self.batcher.held.append(done)
                return Parked(self._abandon)
            case b"heavy":
                self.when_heavy()
        return self.answers.get(bytes(frame)) or [bytes(frame)]

    def _abandon(self) -> None:
        self.abandoned += 1


class Piece:
    """Stands for a piece of a file."""

    released = False

    def __len__(self) -> int:
        return 10

    def release(self) -> None:
        self.released = True


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@pytest.fixture
def dispatcher() -> ScriptedDispatcher:
    return ScriptedDispatcher()


def connect(
    dispatcher: ScriptedDispatcher, max_frame_bytes: int = 1_000, memory: MemoryBudget | None = None
) -> Connection:
    client = Client("127.0.0.1", 40_000, "127.0.0.1", 9092)
    budget = memory or MemoryBudget(1_000_000)
    return Connection(client, dispatcher, max_frame_bytes, budget, dispatcher.complain)  # type: ignore[arg-type]


def feed(connection: Connection, data: bytes, now_ms: float = 0.0) -> None:
    connection.receive(memoryview(bytearray(data)), now_ms)


def sent(connection: Connection) -> list[Any]:
    return [connection.take() for _ in range(len(connection.outgoing))]


def test_requests_are_answered_in_order(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher)
    feed(connection, framed(b"one", b"none", b"two"))
    assert sent(connection) == [b"one", b"two"]


def test_a_byte_at_a_time_gives_the_same(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher)
    for byte in framed(b"one", b"two", b"", b"three"):
        feed(connection, bytes([byte]))
    assert sent(connection) == [b"one", b"two", b"", b"three"]


def test_a_connection_counts_its_bytes(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher, max_frame_bytes=LARGE_BEGINNING_BYTES + 2 * LARGE_REST_BYTES)
    feed(connection, framed(b"one", b"none", b"four"))
    assert (connection.bytes_in, connection.bytes_out) == (4 + 3 + 4 + 4 + 4 + 4, 3 + 4)
    large = framed(bytes(LARGE_BEGINNING_BYTES + 2 * LARGE_REST_BYTES))
    feed(connection, large[:LARGE_BEGINNING_BYTES])
    received = LARGE_BEGINNING_BYTES
    while (room := connection.room()) is not None:
        size = min(len(room), len(large) - received)
        room[:size] = large[received : received + size]
        received += size
        connection.received(size, 0.0)
    feed(connection, large[received:])
    assert connection.bytes_in == 23 + len(large)


def test_nothing_overtakes_a_parked_request(dispatcher: ScriptedDispatcher) -> None:
    connection, woken = connect(dispatcher), []
    connection.wake = lambda: woken.append(True)
    feed(connection, framed(b"park", b"after"))
    feed(connection, framed(b"later"))
    assert connection.parked
    assert not connection.outgoing
    dispatcher.parked[0]([b"ready"])
    assert woken == [True]
    connection.proceed()
    assert sent(connection) == [b"ready", b"after", b"later"]


def test_reading_stops_while_much_is_pending(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher, max_frame_bytes=MAX_PENDING_BYTES)
    feed(connection, framed(b"park"))
    assert connection.wants_data, "a parked client's hang-up must be noticed"
    feed(connection, framed(bytes(MAX_PENDING_BYTES), b"x"))
    assert not connection.wants_data
    dispatcher.parked[0]([b"ready"])
    connection.proceed()
    assert connection.wants_data


def test_output_is_bounded_before_more_is_answered(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher)
    feed(connection, framed(b"big", b"big", b"one"))
    assert len(sent(connection)) == 1
    connection.proceed()
    assert len(sent(connection)) == 1
    connection.proceed()
    assert sent(connection) == [b"one"]


def test_a_request_that_ends_the_connection_leaves_what_was_answered(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher)
    feed(connection, framed(b"one", b"bad", b"two"))
    assert sent(connection) == [b"one"]
    assert connection.closing
    assert not connection.wants_data
    assert dispatcher.seen == [b"one", b"bad"]
    assert dispatcher.complaints == ["127.0.0.1:40000: it is bad"]


@pytest.mark.parametrize("size", [-1, -(1 << 31), 1_001, (1 << 31) - 1])
def test_an_absurd_length_closes_at_once(dispatcher: ScriptedDispatcher, size: int) -> None:
    connection = connect(dispatcher)
    feed(connection, struct.pack(">i", size))
    assert connection.closing
    assert len(dispatcher.complaints) == 1


def test_an_incomplete_frame_is_reserved_whole_and_given_back(dispatcher: ScriptedDispatcher) -> None:
    memory = MemoryBudget(10_000)
    connection = connect(dispatcher, memory=memory)
    data = framed(bytes(800))
    feed(connection, data[:100], now_ms=5.0)
    assert memory.used_bytes == 800
    assert connection.incomplete_since_ms == 5.0
    feed(connection, data[100:], now_ms=6.0)
    assert memory.used_bytes == 0
    assert connection.incomplete_since_ms is None


@pytest.mark.parametrize(
    "sent_bytes, held",
    [(0, None), (2, "2 bytes"), (4, "4 of 804 bytes"), (100, "100 of 804 bytes"), (804, None)],
)
def test_hanging_up_within_a_request_is_told(dispatcher: ScriptedDispatcher, sent_bytes: int, held: str | None) -> None:
    connection = connect(dispatcher)
    feed(connection, framed(bytes(800))[:sent_bytes])
    connection.end_of_stream()
    told = (
        [] if held is None else [f"127.0.0.1:40000: the client disconnected in the middle of a request, after {held}"]
    )
    assert dispatcher.complaints == told


def test_without_room_the_socket_is_left_alone_until_there_is(dispatcher: ScriptedDispatcher) -> None:
    memory, woken = MemoryBudget(100), list[bool]()
    memory.reserve(200, lambda size: None)
    connection = connect(dispatcher, memory=memory)
    connection.wake = lambda: woken.append(True)
    feed(connection, framed(bytes(800))[:50])
    assert not connection.wants_data
    memory.release(200)
    assert woken == [True]
    assert connection.wants_data
    assert memory.used_bytes == 800


def test_a_claim_alone_reserves_little(dispatcher: ScriptedDispatcher) -> None:
    memory = MemoryBudget(1 << 28)
    connection = connect(dispatcher, max_frame_bytes=100 << 20, memory=memory)
    feed(connection, struct.pack(">i", 100 << 20))
    assert memory.used_bytes == SMALL_BYTES
    feed(connection, bytes(SMALL_BYTES + 1))
    assert memory.used_bytes == 100 << 20


def test_the_room_of_a_large_request_is_within_its_reservation(dispatcher: ScriptedDispatcher) -> None:
    memory = MemoryBudget(1 << 28)
    connection = connect(dispatcher, max_frame_bytes=100 << 20, memory=memory)
    feed(connection, struct.pack(">i", 100 << 20))
    assert connection.room() is None, "a claim alone takes nothing"
    feed(connection, bytes(LARGE_BEGINNING_BYTES))
    room = connection.room()
    assert room is not None
    assert len(room) + LARGE_BEGINNING_BYTES == memory.used_bytes == SMALL_BYTES
    connection.received(len(room), 0.0)
    room = connection.room()
    assert room is not None
    assert len(room) + SMALL_BYTES == memory.used_bytes == 100 << 20


def test_requests_in_their_room_are_answered_and_small_ones_have_none(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher, max_frame_bytes=1 << 20)
    body = bytes(range(256)) * 1_000
    feed(connection, framed(body)[:20_004])
    room = connection.room()
    assert room is not None
    room[:] = body[20_000:]
    connection.received(len(room), 7.0)
    assert sent(connection) == [body]
    assert connection.active_ms == 7.0
    feed(connection, framed(body[:80_000])[:20_004])
    assert connection.room() is None, "the rest comes with what follows, in one receive"


def test_who_is_gone_is_granted_nothing_by_its_own_release(dispatcher: ScriptedDispatcher) -> None:
    memory = MemoryBudget(SMALL_BYTES)
    connection = connect(dispatcher, max_frame_bytes=100 << 20, memory=memory)
    feed(connection, struct.pack(">i", 100 << 20))
    feed(connection, bytes(SMALL_BYTES + 1))
    assert connection.starved
    connection.finish()
    assert memory.used_bytes == 0


def test_frames_behind_a_parked_request_are_accounted_for(dispatcher: ScriptedDispatcher) -> None:
    memory = MemoryBudget(1 << 28)
    connection = connect(dispatcher, max_frame_bytes=1 << 20, memory=memory)
    feed(connection, framed(b"park", bytes(100_000)))
    assert memory.used_bytes >= 100_000
    feed(connection, framed(*[b""] * 2_000))
    assert not connection.wants_data, "empty frames take memory too"
    dispatcher.parked[0]([b"ready"])
    connection.proceed()
    assert memory.used_bytes == 0


def test_frames_that_keep_coming_are_not_overdue(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher)
    stream = framed(*[bytes(800)] * 10)
    for start in range(0, len(stream) - 804, 804):
        feed(connection, stream[start : start + 804] if start else stream[:900], now_ms=float(start))
        stream = stream if start else stream[96:]
    assert connection.incomplete_since_ms is not None
    assert connection.incomplete_since_ms > 804 * 6


def test_good_requests_before_a_bad_size_are_answered(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher)
    feed(connection, framed(b"one", b"two") + struct.pack(">i", -1))
    assert sent(connection) == [b"one", b"two"]
    assert connection.closing


def test_the_end_gives_everything_back(dispatcher: ScriptedDispatcher) -> None:
    memory, piece = MemoryBudget(1_000), Piece()
    connection = connect(dispatcher, memory=memory)
    feed(connection, framed(b"park") + framed(bytes(800))[:50])
    connection.outgoing.append(piece)  # type: ignore[arg-type]
    connection.finish()
    assert dispatcher.abandoned == 1
    assert memory.used_bytes == 0
    assert piece.released
    assert connection._frames.held_bytes == 0, "a buffer must not wait for the garbage collector"


def test_a_reply_that_could_not_be_made_closes(
    dispatcher: ScriptedDispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    connection = connect(dispatcher)
    feed(connection, framed(b"park", b"after"))
    with caplog.at_level(logging.CRITICAL):
        dispatcher.parked[0](ValueError("no"))
    assert connection.closing
    assert not connection.outgoing


def test_who_was_answered_does_not_wait_for_memory_any_more(dispatcher: ScriptedDispatcher) -> None:
    memory = MemoryBudget(5_000)
    memory.used_bytes = 10_000
    connection = connect(dispatcher, memory=memory)
    feed(connection, framed(b"park", bytes(900)))
    assert connection.starved
    dispatcher.parked[0]([b"ready"])
    while connection.outgoing:
        connection.take()
        connection.proceed()
    assert connection.wants_data
    memory.release(10_000)
    assert memory.used_bytes == 0, "nothing is granted to who needs nothing"


def test_a_connection_ends_even_if_its_last_write_fails(
    dispatcher: ScriptedDispatcher, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("a fault of ours")

    connection, piece = connect(dispatcher), Piece()
    connection.outgoing.append(piece)  # type: ignore[arg-type]
    monkeypatch.setattr(dispatcher.batcher, "write_all", fail)
    connection.finish()
    assert piece.released
    assert "a fault of ours" in caplog.text


def test_a_parked_request_may_be_owed_nothing(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher)
    feed(connection, framed(b"park", b"two"))
    dispatcher.parked[0]([])
    connection.proceed()
    assert sent(connection) == [b"two"]


def test_the_reservation_of_a_parked_request_ends_without_a_reply(dispatcher: ScriptedDispatcher) -> None:
    memory, large = MemoryBudget(1_000_000), b"silent" + bytes(FREE_PARKED_BYTES)
    connection = connect(dispatcher, max_frame_bytes=10_000, memory=memory)
    feed(connection, framed(large))
    assert memory.used_bytes == len(large)
    dispatcher.parked[0]([])
    assert memory.used_bytes == 0


def test_at_the_end_of_the_stream_everything_is_still_answered(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher)
    feed(connection, framed(b"silent", b"none", b"park", b"last"))
    connection.end_of_stream()
    assert not connection.wants_data
    assert not connection.is_answered
    dispatcher.parked[0]([])
    assert not connection.is_answered, "there is more"
    connection.proceed()
    assert dispatcher.seen == [b"silent", b"none", b"park"]
    assert not connection.is_answered, "the reply is owed"
    dispatcher.parked[1]([b"ready"])
    connection.proceed()
    assert sent(connection) == [b"ready", b"last"]
    assert connection.is_answered


def test_half_a_request_at_the_end_does_not_undo_those_before(
    dispatcher: ScriptedDispatcher,
) -> None:
    memory = MemoryBudget(1_000_000)
    connection = connect(dispatcher, memory=memory)
    feed(connection, framed(b"silent", b"none", b"half of it")[:-3])
    connection.end_of_stream()
    (complaint,) = dispatcher.complaints
    assert "11 of 14 bytes" in complaint
    assert connection.incomplete_since_ms is None
    dispatcher.parked[0]([])
    connection.proceed()
    assert dispatcher.seen == [b"silent", b"none"]
    assert connection.is_answered
    assert memory.used_bytes == 0


def test_a_parked_request_may_end_the_connection(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher)
    feed(connection, framed(b"park", b"two"))
    dispatcher.parked[0](CloseConnection("it is bad"))
    assert connection.closing
    assert dispatcher.complaints == ["127.0.0.1:40000: it is bad"]
    connection.proceed()
    assert sent(connection) == []


def test_the_clock_is_read_between_the_requests_of_one_receive(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher)
    connection.is_late = lambda: len(dispatcher.seen) % 3 == 0
    feed(connection, framed(*[b"x"] * 8))
    assert len(dispatcher.seen) == 3
    connection.proceed()
    assert len(dispatcher.seen) == 6
    feed(connection, framed(b"y"))
    assert dispatcher.seen[6:] == [b"x", b"x", b"y"], "what waits comes first, and what came is not forgotten"
    assert not connection.has_more


def test_a_turn_that_is_over_still_answers_one_request(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher)
    connection.is_late = lambda: True
    feed(connection, framed(b"one", b"two", b"three"))
    assert dispatcher.seen == [b"one"]
    feed(connection, framed(b"four")[:3])
    assert dispatcher.seen == [b"one", b"two"]
    connection.proceed()
    feed(connection, framed(b"four")[3:])
    assert dispatcher.seen == [b"one", b"two", b"three", b"four"]


def test_an_incomplete_request_has_its_time_anew_when_reading_resumes(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher)
    connection.resume_reading(5.0)
    assert connection.incomplete_since_ms is None, "there is no such request"
    feed(connection, framed(b"half of it")[:-3], now_ms=10.0)
    connection.resume_reading(40_000.0)
    assert connection.incomplete_since_ms == 40_000.0
    feed(connection, framed(b"half of it")[-3:], now_ms=50_000.0)
    assert connection.incomplete_since_ms is None
