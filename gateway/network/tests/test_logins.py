"""Logins of connections without a socket: what is answered, when, and what the dispatcher gets to see.

The exchange alone: `gateway.security.sasl.tests.test_server_exchange`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headgate.gateway.api.context import Client as NetworkClient
from headgate.gateway.api.handlers.api_versions import advertised
from headgate.gateway.audit.tests.audited import Audited
from headgate.gateway.metadata.image import Image
from headgate.gateway.network.connection import Closing, Connection
from headgate.gateway.network.logins import MAX_THREADS, READING_MS, TIMED_OUT, Logins
from headgate.gateway.network.tests.test_connection import ScriptedDispatcher, feed, framed, sent
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.runtime.tasks import Tasks
from headgate.gateway.runtime.tests.fake_scheduler import HeldThreads, ManualTime
from headgate.gateway.security.sasl.exchange import Challenge, SaslComputation
from headgate.gateway.security.sasl.plain import ScramPasswords
from headgate.gateway.security.sasl.server_exchange import SaslListener
from headgate.gateway.security.sasl.tests import sasl_scenario as scenario
from headgate.gateway.security.sasl.tests.exchanges import CREDENTIALS, NOW_S, dispatched, listener
from headgate.gateway.security.sasl.tests.sasl_scenario import (
    DELAY_MS,
    PLAIN_USERS,
    RENEWED,
    SASL,
    SHORT,
    SHORT_MS,
    Answer,
    Client,
    ScramClient,
    bearer,
    plain,
)
from headgate.gateway.security.sasl.tests.test_sasl_like_kafka import DIFFERENCES, KAFKAS
from headgate.gateway.security.sasl.tests.test_server_exchange import HANDSHAKE, Scripted
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.metadata import MetadataRequest
from headgate.protocol.schema import Message

MAX_FRAME_BYTES = 1 << 20
TIMEOUT_MS = 10_000
ACCEPTED = "SaslAuthenticate 0  ''"
SERVED = {17: (0, 1), 18: (0, 5), 36: (0, 2)}


class Broker:
    """What logins need of a broker. `dispatcher` echoes the frames that come through."""

    def __init__(self, listeners: dict[str, SaslListener] | None = None) -> None:
        self.time = ManualTime()
        self.dispatcher = ScriptedDispatcher()
        clock, scheduler = self.time.clock, self.time.scheduler
        self.listeners = {name: listener(clock, name) for name in (SASL, SHORT)} if listeners is None else listeners
        services = SimpleNamespace(
            clock=clock,
            scheduler=scheduler,
            tasks=Tasks(clock, scheduler),
            metadata=SimpleNamespace(image=Image.empty("a cluster"), end_offset=5),
            config=SimpleNamespace(node_id=1),
            served_versions=advertised(SERVED),
            audit=None,
        )
        self.services = services
        self.logins = Logins(cast("Any", services), self.listeners, lambda: TIMEOUT_MS)

    def connect(self, name: str = SASL) -> Connected:
        return Connected(self, name)


class Connected:
    """A connection to the broker: a `Peer` of the scenario."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker, self.time = broker, broker.time
        client = NetworkClient("127.0.0.1", 40_000, "127.0.0.1", 9092, name)
        dispatcher = cast("Any", broker.dispatcher)
        self.connection = Connection(
            client, dispatcher, MAX_FRAME_BYTES, MemoryBudget(1 << 30), broker.dispatcher.complain
        )
        self.connection.wake = lambda: broker.time.scheduler.call_soon(self.connection.proceed)
        broker.logins.begin(self.connection, dispatcher)

    @property
    def principal(self) -> str:
        return self.connection.client.principal

    def wait(self, wait_ms: int) -> None:
        self.time.advance(wait_ms)

    def send(self, data: bytes) -> Answer:
        """Send bytes. A connection that is neither answered nor closed at once has to be so after the delay."""
        feed(self.connection, data)
        self.time.advance()
        is_late = self.connection.parked
        if is_late:
            self.time.advance(DELAY_MS - 1)
            assert self.connection.parked
            assert not self.connection.outgoing
            assert not self.connection.closing
            self.time.advance(1)
        replies = b"".join(sent(self.connection))
        if is_late and replies:
            assert not self.connection.closing
            self.time.advance(READING_MS)
        return Answer(replies or None, bool(self.connection.closing), is_late)


class Recorded:
    """A `Peer` that answers nothing: it has the bytes of the requests."""

    def __init__(self) -> None:
        self.data = b""

    def wait(self, wait_ms: int) -> None:
        """Nothing waits."""

    def send(self, data: bytes) -> Answer:
        self.data += data
        return Answer(None, False, False)


def recorded(*requests: Callable[[Client], object]) -> bytes:
    """The bytes of requests that are sent without a wait for the answers."""
    peer = Recorded()
    client = Client(peer)
    for request in requests:
        request(client)
    return peer.data


def choose(client: Client) -> str:
    return client.handshake("PLAIN")


def name_alice(client: Client) -> str:
    return client.token(plain("alice", PLAIN_USERS["alice"]))


def name_wrongly(client: Client) -> str:
    return client.token(plain("alice", "wrong"))


def login(peer: Connected) -> str:
    client = Client(peer)
    choose(client)
    return name_alice(client)


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def held() -> tuple[Broker, HeldThreads]:
    """A broker whose threads check passwords, when the test says so."""
    broker = Broker({})
    broker.listeners[SASL] = listener(broker.time.clock, passwords=ScramPasswords(CREDENTIALS))
    return broker, broker.time.scheduler.hold()


def test_after_a_login_the_dispatcher_answers(broker: Broker) -> None:
    peer = broker.connect()
    client = Client(peer)
    assert [choose(client), name_alice(client)] == [HANDSHAKE, ACCEPTED]
    assert peer.principal == "User:alice"
    assert broker.dispatcher.seen == []
    assert peer.send(framed(b"hello")) == (b"hello", False, False)


def test_a_listener_without_logins_is_left_alone(broker: Broker) -> None:
    peer = broker.connect("PLAINTEXT")
    assert peer.send(framed(b"hello")) == (b"hello", False, False)
    broker.time.advance(2 * TIMEOUT_MS)
    assert not peer.connection.closing
    assert peer.principal == "User:ANONYMOUS"


def test_a_wrong_password_is_answered_late_then_closed(broker: Broker) -> None:
    """The client reads the answer before the close, and the close must not reset the connection."""
    peer = broker.connect()
    client = Client(peer)
    choose(client)
    answer = name_wrongly(client)
    assert answer.startswith("SaslAuthenticate 58 Authentication failed: Invalid username or password")
    assert answer.endswith(", then the end, late")
    assert peer.connection.closing is Closing.LINGERING
    assert peer.principal == "User:ANONYMOUS"
    assert broker.dispatcher.complaints == [
        "127.0.0.1:40000: PLAIN: Authentication failed: Invalid username or password"
    ]


def test_an_unknown_mechanism_gets_the_list(broker: Broker) -> None:
    answer = Client(broker.connect()).handshake("DIGEST-MD5")
    assert answer == HANDSHAKE.replace(" 0 ", " 33 ") + ", then the end, late"


def test_scram_takes_its_steps(broker: Broker) -> None:
    peer, scram = broker.connect(), ScramClient("sha512")
    client = Client(peer)
    client.handshake("SCRAM-SHA-512")
    client.token(scram.first())
    assert client.token(scram.final(client.token_bytes)) == "SaslAuthenticate 0  'v=SIGNATURE'"
    assert peer.principal == "User:alice"


def test_raw_tokens_log_in(broker: Broker) -> None:
    peer = broker.connect()
    client = Client(peer)
    client.handshake("PLAIN", 0)
    assert name_alice(client) == "''"
    assert peer.principal == "User:alice"


@pytest.mark.parametrize("is_versioned", [False, True])
def test_nothing_else_is_served_before_a_login(broker: Broker, is_versioned: bool) -> None:
    client = Client(broker.connect())
    if is_versioned:
        client.ask(ApiVersionsRequest("a", "1"), 3)
    assert client.ask(MetadataRequest(), 1) == "nothing, then the end"
    assert broker.dispatcher.seen == []
    assert "Unexpected Kafka request of type Metadata" in broker.dispatcher.complaints[0]


@pytest.mark.parametrize(
    "request_of, version, answer",
    [
        (ApiVersionsRequest("a", "1"), 3, "ApiVersions 0 with APIs"),
        (ApiVersionsRequest("a", "1"), 99, "ApiVersions 35 with APIs"),
        (ApiVersionsRequest("-", "1"), 3, "ApiVersions 42 without APIs"),
        (ApiVersionsRequest("a", "1", "other", 9), 5, "ApiVersions 129 without APIs"),
    ],
)
def test_the_broker_answers_api_versions(broker: Broker, request_of: Message, version: int, answer: str) -> None:
    assert Client(broker.connect()).ask(request_of, version) == answer


@pytest.mark.parametrize("size", [-1, 524_289, 0x7FFFFFFF])
def test_a_frame_above_the_limit_of_logins_closes(broker: Broker, size: int) -> None:
    peer = broker.connect()
    assert Client(peer).size(size) == "nothing, then the end"
    assert broker.dispatcher.complaints == [f"127.0.0.1:40000: a frame claims {size} bytes; the limit is 524288"]


def test_after_a_login_frames_have_their_own_limit(broker: Broker) -> None:
    peer = broker.connect()
    login(peer)
    assert peer.send(framed(bytes(524_289))) == (bytes(524_289), False, False)
    assert Client(peer).size(MAX_FRAME_BYTES + 1) == "nothing, then the end"


def test_a_byte_at_a_time_gives_the_same(broker: Broker) -> None:
    peer, whole = broker.connect(), broker.connect()
    data = recorded(choose, name_alice) + framed(b"hello")
    answers = [peer.send(bytes([byte])).reply or b"" for byte in data]
    assert b"".join(answers) == whole.send(data).reply
    assert broker.dispatcher.seen == [b"hello", b"hello"]


def test_pipelined_frames_wait_for_the_thread(held: tuple[Broker, HeldThreads]) -> None:
    broker, threads = held
    peer = broker.connect()
    feed(peer.connection, recorded(choose, name_alice) + framed(b"hello"))
    broker.time.advance()
    assert (peer.connection.parked, broker.dispatcher.seen) == (True, [])
    sent(peer.connection)
    threads.run_one()
    assert peer.principal == "User:alice"
    reply, hello = sent(peer.connection)
    assert (struct.unpack_from(">i", reply), hello) == ((len(reply) - 4,), b"hello")


def test_frames_behind_a_refused_login_are_dropped(broker: Broker) -> None:
    peer = broker.connect()
    choose(Client(peer))
    answer = peer.send(recorded(name_wrongly, name_alice) + framed(b"hello"))
    assert (answer.is_closed, answer.is_late) == (True, True)
    broker.time.advance(TIMEOUT_MS)
    assert (peer.principal, broker.dispatcher.seen) == ("User:ANONYMOUS", [])


@pytest.mark.parametrize("requests", [(), (choose,)], ids=["silent", "slow"])
def test_a_login_has_to_end_in_time(broker: Broker, requests: tuple[Callable[[Client], str], ...]) -> None:
    peer = broker.connect()
    client = Client(peer)
    for request in requests:
        peer.wait(TIMEOUT_MS // 2)
        request(client)
    peer.wait(TIMEOUT_MS - int(broker.time.clock.monotonic_ms()) - 1)
    assert not peer.connection.closing
    peer.wait(1)
    assert peer.connection.closing
    assert broker.dispatcher.complaints == [f"127.0.0.1:40000: {TIMED_OUT}"]


def test_a_hung_thread_ends_at_the_timeout(held: tuple[Broker, HeldThreads]) -> None:
    broker, threads = held
    peer = broker.connect()
    feed(peer.connection, recorded(choose, name_alice))
    peer.wait(TIMEOUT_MS)
    assert peer.connection.closing
    threads.run_all()
    assert (peer.principal, broker.dispatcher.complaints) == ("User:ANONYMOUS", [f"127.0.0.1:40000: {TIMED_OUT}"])


def test_a_client_that_is_known_may_be_silent(broker: Broker) -> None:
    peer = broker.connect()
    login(peer)
    peer.wait(100 * TIMEOUT_MS)
    assert not peer.connection.closing


def test_a_session_is_renewed_and_ends(broker: Broker) -> None:
    peer = broker.connect(SHORT)
    assert login(peer).endswith("with a lifetime")
    peer.wait(SHORT_MS)
    assert peer.send(framed(b"served")).reply == b"served"
    assert login(peer).endswith("with a lifetime")
    peer.wait(SHORT_MS)
    assert peer.send(framed(b"again")).reply == b"again"
    peer.wait(1)
    assert peer.send(framed(b"late")) == (None, True, False)
    assert broker.dispatcher.seen == [b"served", b"again"]
    assert broker.dispatcher.complaints == ["127.0.0.1:40000: the session of User:alice has expired"]


def test_a_renewal_as_another_is_refused(broker: Broker) -> None:
    peer = broker.connect(SHORT)
    login(peer)
    client = Client(peer)
    choose(client)
    assert "Cannot change principals" in client.token(plain("bob", PLAIN_USERS["bob"]))
    assert (peer.principal, bool(peer.connection.closing)) == ("User:alice", True)


def test_a_bearer_token_ends_the_session(broker: Broker) -> None:
    peer = broker.connect()
    client = Client(peer)
    client.handshake("OAUTHBEARER")
    assert client.token(bearer({"sub": "ann", "exp": NOW_S + 5})) == f"{ACCEPTED} with a lifetime"
    peer.wait(5_001)
    assert peer.send(framed(b"late")) == (None, True, False)


def test_a_client_that_is_gone_is_not_logged_in(held: tuple[Broker, HeldThreads]) -> None:
    broker, threads = held
    peer = broker.connect()
    feed(peer.connection, recorded(choose, name_alice))
    broker.time.advance()
    peer.connection.finish()
    threads.run_one()
    assert (peer.principal, peer.connection.outgoing) == ("User:ANONYMOUS", [])


def test_a_flood_that_is_gone_is_not_computed(held: tuple[Broker, HeldThreads]) -> None:
    """The threads are few: the next client must not wait for those that have left."""
    broker, threads = held
    flood = [broker.connect() for _ in range(1_000)]
    for peer in flood:
        feed(peer.connection, recorded(choose, name_alice))
    broker.time.advance()
    assert len(threads.waiting) == MAX_THREADS
    for peer in flood:
        peer.connection.finish()
    stays = broker.connect()
    feed(stays.connection, recorded(choose, name_alice))
    broker.time.advance()
    for _ in range(MAX_THREADS):
        threads.run_one()
    assert len(threads.waiting) == 1
    threads.run_one()
    assert stays.principal == "User:alice"


def test_a_client_that_leaves_in_the_delay_gets_nothing(broker: Broker) -> None:
    peer = broker.connect()
    feed(peer.connection, recorded(choose, name_wrongly))
    broker.time.advance()
    sent(peer.connection)
    peer.connection.finish()
    broker.time.advance(DELAY_MS)
    assert peer.connection.outgoing == []


def test_a_fault_of_a_thread_closes_without_an_answer(held: tuple[Broker, HeldThreads]) -> None:
    broker, threads = held
    peer = broker.connect()
    feed(peer.connection, recorded(choose, name_alice))
    broker.time.advance()
    sent(peer.connection)
    threads.run_one(OSError(5, "the disk"))
    assert (bool(peer.connection.closing), peer.connection.outgoing) == (True, [])
    assert "authentication by PLAIN met a fault" in broker.dispatcher.complaints[0]


def test_a_login_may_need_several_threads(broker: Broker) -> None:
    steps = [SaslComputation(lambda: Challenge(b"1")), SaslComputation(lambda: Challenge(b"2"))]
    broker.listeners[SASL] = listener(broker.time.clock, more={"PLAIN": lambda: Scripted(*steps)})
    client = Client(broker.connect())
    choose(client)
    assert [client.token(b"x"), client.token(b"y")] == ["SaslAuthenticate 0  '1'", "SaslAuthenticate 0  '2'"]


def test_settings_of_now_count_for_new_connections(broker: Broker) -> None:
    before = broker.connect()
    only_scram = {"SCRAM-SHA-256": broker.listeners[SASL].mechanisms["SCRAM-SHA-256"]}
    broker.listeners[SASL] = broker.listeners[SASL]._replace(mechanisms=only_scram)
    assert login(before) == ACCEPTED
    assert Client(broker.connect()).handshake("PLAIN") == "SaslHandshake 33 SCRAM-SHA-256, then the end, late"


class AsAfterLogin(ScriptedDispatcher):
    """Answers requests as a broker does once a client is known."""

    def dispatch(self, frame: memoryview, client: NetworkClient, done: Callable[[Any], None]) -> Any:
        return [dispatched(frame)]


def test_connections_get_kafkas_answers() -> None:
    broker = Broker()
    broker.dispatcher = AsAfterLogin()
    broker.listeners[RENEWED] = listener(broker.time.clock, RENEWED)
    # Without an answer no delay is needed
    at_once = {f"first, a frame of {size} bytes: 0": "nothing, then the end" for size in (524289, -1)}
    now_s = broker.time.clock.now_ms() // 1000
    assert scenario.play(broker.connect, now_s) == {**KAFKAS, **DIFFERENCES, **at_once}


def test_logins_are_lines_of_the_audit_log(broker: Broker) -> None:
    audited = Audited()
    broker.services.audit = audited.log
    login(broker.connect())
    failing = Client(broker.connect())
    choose(failing)
    name_wrongly(failing)
    broker.connect()
    broker.time.advance(TIMEOUT_MS)
    events = [
        (line["event"], line["principal"], line.get("mechanism"), line.get("user"), line.get("reason"))
        for line in audited.lines
    ]
    assert events == [
        ("login", "User:alice", "PLAIN", None, None),
        ("login_failed", "User:ANONYMOUS", None, "alice", "PLAIN: Authentication failed: Invalid username or password"),
        ("login_failed", "User:ANONYMOUS", None, None, TIMED_OUT),
    ]
    assert b"wrong" not in b"".join(audited.files.content.values())
