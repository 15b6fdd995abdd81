"""Who is at the other end, as a log line shows it."""

from headgate.gateway.api.context import Client


def test_a_client_is_shown_with_what_it_said_of_itself() -> None:
    client = Client("192.0.2.9", 50_000, "192.0.2.1", 9092)
    assert str(client) == "192.0.2.9:50000"
    client.client_id, client.software_name, client.software_version = "billing", "librdkafka", "2.6.0"
    assert str(client) == "192.0.2.9:50000 client.id='billing' librdkafka-2.6.0"


def test_what_a_client_says_cannot_forge_a_log_line() -> None:
    client = Client("192.0.2.9", 50_000, "192.0.2.1", 9092, client_id="x\n2026 ERROR forged" + "y" * 1_000)
    assert "\n" not in str(client)
    assert len(str(client)) < 150
