"""Who is at the other end, as a log line shows it."""

from headgate.gateway.api.context import MAX_RECENT_TOPICS, Client
from headgate.gateway.request_log.request_trace import ConnectionTrace
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.protocol.errors import ErrorCode


def test_a_client_is_shown_with_what_it_said_of_itself() -> None:
    client = Client("192.0.2.9", 50_000, "192.0.2.1", 9092)
    assert str(client) == "192.0.2.9:50000"
    client.client_id, client.software_name, client.software_version = "billing", "librdkafka", "2.6.0"
    assert str(client) == "192.0.2.9:50000 client.id='billing' librdkafka-2.6.0"


def test_what_a_client_says_cannot_forge_a_log_line() -> None:
    client = Client("192.0.2.9", 50_000, "192.0.2.1", 9092, client_id="x\n2026 ERROR forged" + "y" * 1_000)
    assert "\n" not in str(client)
    assert len(str(client)) < 150


class ActiveConnection:
    """Bytes arrived at this time."""

    active_ms = 7.0
    trace: ConnectionTrace | None = None

    def mute(self, _scheduler: object, _throttle_ms: int) -> None:
        """A test looks at the client's counters alone."""


def connected() -> Client:
    return Client("192.0.2.9", 50_000, "192.0.2.1", 9092, connection=ActiveConnection())


def test_a_client_shows_its_last_topics() -> None:
    client, other = connected(), connected()
    for number in range(MAX_RECENT_TOPICS + 3):
        client.note_written(f"t-{number}")
        client.note_read(f"r-{number}")
    assert list(client.topics_written) == [f"t-{number}" for number in range(3, MAX_RECENT_TOPICS + 3)]
    assert set(client.topics_read.values()) == {7.0}
    assert not other.topics_written
    assert not other.topics_read


def test_a_client_shows_its_last_error_and_its_pauses() -> None:
    client = connected()
    client.note_error("Fetch", ErrorCode.OFFSET_OUT_OF_RANGE, "t")
    client.note_error("Metadata", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert client.last_error == ("Metadata", ErrorCode.TOPIC_AUTHORIZATION_FAILED, "", 7.0)
    for throttle_ms in (100, 30):
        client.mute(ManualTime().scheduler, throttle_ms)
    assert (client.throttles, client.throttled_ms) == (2, 130)
