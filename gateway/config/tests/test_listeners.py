"""Listeners and what is advertised."""

import pytest

from headgate.gateway.config.listeners import (
    Listener,
    ListenerProblem,
    check_advertised,
    check_listeners,
    is_every_address,
    parse,
    parse_metrics_listener,
    parse_protocol_map,
    parse_zookeeper,
)

PLAIN = {"PLAINTEXT": "PLAINTEXT", "INTERNAL": "PLAINTEXT", "SSL": "SSL", "ODD": "TELNET"}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("PLAINTEXT://:9092", [Listener("PLAINTEXT", "", 9092)]),
        ("PLAINTEXT://0.0.0.0:0", [Listener("PLAINTEXT", "0.0.0.0", 0)]),
        ("plaintext://[::1]:9092", [Listener("PLAINTEXT", "::1", 9092)]),
        ("PLAINTEXT://[fe80::1%eth0]:9092", [Listener("PLAINTEXT", "fe80::1%eth0", 9092)]),
        (
            "INTERNAL://kafka-1.example:9093 , PLAINTEXT://localhost:9092",
            [Listener("INTERNAL", "kafka-1.example", 9093), Listener("PLAINTEXT", "localhost", 9092)],
        ),
        ("", []),
    ],
)
def test_endpoints(text: str, expected: list[Listener]) -> None:
    assert list(parse(text)) == expected


@pytest.mark.parametrize(
    "text", ["localhost:9092", "PLAINTEXT://localhost", "PLAINTEXT://::1:9092", "PLAINTEXT://:port", "PLAINTEXT:9092"]
)
def test_what_is_no_endpoint_is_shown_one(text: str) -> None:
    with pytest.raises(ListenerProblem, match=r"PLAINTEXT://127\.0\.0\.1:9092"):
        parse(text)


def test_ports_and_names() -> None:
    with pytest.raises(ListenerProblem, match="the largest port is 65535"):
        parse("PLAINTEXT://:65536")
    with pytest.raises(ListenerProblem, match="PLAINTEXT is listed twice"):
        parse("PLAINTEXT://:1,plaintext://:2")


def test_protocols() -> None:
    assert parse_protocol_map("internal:plaintext, EXTERNAL:SSL,") == {"INTERNAL": "PLAINTEXT", "EXTERNAL": "SSL"}
    with pytest.raises(ListenerProblem, match="'INTERNAL' is not NAME:PROTOCOL"):
        parse_protocol_map("INTERNAL")


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("", "there is no listener"),
        ("OTHER://:9092", "add OTHER:PLAINTEXT to it"),
        ("ODD://:9092", "the protocol TELNET of ODD does not exist"),
        ("PLAINTEXT://:9092,INTERNAL://:9092", "PLAINTEXT and INTERNAL have the same address"),
        # Kafka 4.1 and 3.9: "Socket server failed to bind to 0.0.0.0:9092: Address already in use", and the broker ends
        ("PLAINTEXT://0.0.0.0:9092,INTERNAL://[::]:9092", "PLAINTEXT and INTERNAL have the same address"),
        ("PLAINTEXT://127.0.0.1:9092,INTERNAL://[::]:9092", "PLAINTEXT and INTERNAL have the same address"),
        ("PLAINTEXT://[0:0:0:0:0:0:0:0]:9092,INTERNAL://[::1]:9092", "PLAINTEXT and INTERNAL have the same address"),
        ("PLAINTEXT://0.0.0.0:9092,INTERNAL://127.0.0.1:9092", "PLAINTEXT and INTERNAL have the same address"),
    ],
)
def test_listeners_that_cannot_be(text: str, sentence: str) -> None:
    with pytest.raises(ListenerProblem, match=sentence):
        check_listeners(parse(text), PLAIN)


def test_listeners_that_can_be() -> None:
    protocols = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    check_listeners(parse(",".join(f"{name}://:0" for name in protocols)), {name: name for name in protocols})
    check_listeners(parse("PLAINTEXT://0.0.0.0:0,INTERNAL://0.0.0.0:0"), PLAIN)
    check_listeners(parse("PLAINTEXT://127.0.0.1:9092,INTERNAL://[::1]:9092"), PLAIN)  # Kafka 4.1 and 3.9 start
    check_listeners(parse("PLAINTEXT://0.0.0.0:9092,INTERNAL://[::1]:9092"), PLAIN)
    check_listeners(parse("PLAINTEXT://[::]:9092,INTERNAL://[::]:9093"), PLAIN)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "[0:0:0:0:0:0:0:0]", ""])
def test_every_address_cannot_be_advertised(host: str) -> None:
    with pytest.raises(
        ListenerProblem, match="which means every address of this machine; name an address that clients can reach"
    ):
        check_advertised(parse(f"PLAINTEXT://{host}:9092"), parse("PLAINTEXT://0.0.0.0:9092"))


def test_advertised_names_are_those_of_listeners() -> None:
    check_advertised(parse("PLAINTEXT://kafka.example:9092"), parse("PLAINTEXT://:9092,INTERNAL://:9093"))
    with pytest.raises(ListenerProblem, match="OTHER is not among listeners, which has PLAINTEXT"):
        check_advertised(parse("OTHER://kafka.example:9092"), parse("PLAINTEXT://:9092"))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", None),
        ("9404", ("127.0.0.1", 9404)),
        (":9404", ("127.0.0.1", 9404)),
        ("0.0.0.0:9404", ("0.0.0.0", 9404)),
        ("[::1]:0", ("::1", 0)),
    ],
)
def test_metrics_listen_on_loopback_unless_configured_otherwise(text: str, expected: tuple[str, int] | None) -> None:
    assert parse_metrics_listener(text) == expected


@pytest.mark.parametrize("text", ["host", "host:", "host:x", "::1:9404", "host:65536"])
def test_what_is_no_listener_of_metrics_is_shown_one(text: str) -> None:
    with pytest.raises(ListenerProblem, match=r"is not host:port, as in 127\.0\.0\.1:9404"):
        parse_metrics_listener(text)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "::0", "0:0:0:0:0:0:0:0", "::0.0.0.0"])
def test_every_address(host: str) -> None:
    assert is_every_address(host)


@pytest.mark.parametrize("host", ["::1", "10.0.0.0", "fd00::", "localhost", "0.0.0.1"])
def test_one_address(host: str) -> None:
    assert not is_every_address(host)


@pytest.mark.parametrize(
    "text, expected",
    [  # as ZooKeeper's own parser, recorded from Kafka 3.9's jars
        ("h:1", "h:1"),
        ("h:1,", "h:1"),
        ("h:1,,g:2/k", "h:1,g:2/k"),
        ("h:1 , g/k", "h:1,g/k"),
        ("h:1/", "h:1"),
        ("[::1]:2181/a/b", "[::1]:2181/a/b"),
    ],
)
def test_servers_of_zookeeper(text: str, expected: str) -> None:
    assert parse_zookeeper(text) == expected


@pytest.mark.parametrize(
    "text, sentence",
    [
        (",", "',' names no server"),
        ("/k", "'/k' names no server"),
        (":2181", "':2181' is not host:port"),
        ("a,h:x", "'h:x' is not host:port"),
        ("h/k,h/k", "the path stands once, behind the last server"),
        ("h//k", "the path has empty parts"),
        ("h/k/", "the path has empty parts"),
        ("h/..", "the path has empty parts"),
    ],
)
def test_what_is_no_zookeeper(text: str, sentence: str) -> None:
    with pytest.raises(ListenerProblem, match=sentence):
        parse_zookeeper(text)
