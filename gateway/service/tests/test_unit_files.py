"""Unit files: what follows from the settings, and words that systemd reads as they are meant."""

from pathlib import PurePosixPath
from typing import Any

import pytest

from headgate.gateway.service.unit_files import Service, quote, service_unit, socket_unit

PLAIN = Service(
    name="headgate",
    user="kafka",
    command=["/usr/bin/headgate", "serve", "/etc/headgate/server.properties"],
    directories=[PurePosixPath("/var/lib/headgate")],
    addresses=[("", 9092), ("127.0.0.1", 9644)],
)


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and line[0] not in "#["]


def values(text: str, name: str) -> list[str]:
    return [line.partition("=")[2] for line in lines(text) if line.startswith(f"{name}=")]


def test_a_unit_runs_the_command_as_its_user() -> None:
    text = service_unit(PLAIN, has_socket=False)
    assert values(text, "ExecStart") == ["/usr/bin/headgate serve /etc/headgate/server.properties"]
    assert (values(text, "User"), values(text, "Group")) == (["kafka"], ["kafka"])
    assert values(text, "Type") == ["notify"]
    assert values(text, "Requires") == []
    assert "{" not in text


def test_the_socket_comes_before_the_service() -> None:
    text = service_unit(PLAIN, has_socket=True)
    assert values(text, "Requires") == ["headgate.socket"]
    assert values(text, "After") == ["network-online.target", "headgate.socket"]
    assert values(socket_unit(PLAIN), "Service") == ["headgate.service"]


@pytest.mark.parametrize(
    "directory, line",
    [
        ("/var/lib/headgate/a", "StateDirectory=headgate/a"),
        ("/var/lib", "ReadWritePaths=/var/lib"),
        ("/srv/my data", 'ReadWritePaths="/srv/my data"'),
        ("/srv/100%", "ReadWritePaths=/srv/100%%"),
    ],
)
def test_a_unit_writes_to_its_directories_alone(directory: str, line: str) -> None:
    text = service_unit(PLAIN._replace(directories=[PurePosixPath(directory)]), has_socket=False)
    assert line in lines(text)
    assert values(text, "ProtectSystem") == ["strict"]


@pytest.mark.parametrize(
    "changes, homes",
    [
        ({}, "yes"),
        ({"reads": [PurePosixPath("/home/ann/headgate/bin/headgate")]}, "read-only"),
        ({"directories": [PurePosixPath("/root/data")]}, "read-only"),
        ({"reads": [PurePosixPath("/homes/x")]}, "yes"),
    ],
)
def test_homes_are_hidden_unless_something_is_there(changes: dict[str, Any], homes: str) -> None:
    assert values(service_unit(PLAIN._replace(**changes), has_socket=False), "ProtectHome") == [homes]


@pytest.mark.parametrize(
    "port, has_socket, capabilities", [(9092, False, ""), (92, False, "CAP_NET_BIND_SERVICE"), (92, True, "")]
)
def test_a_low_port_needs_a_capability_or_a_socket(port: int, capabilities: str, *, has_socket: bool) -> None:
    text = service_unit(PLAIN._replace(addresses=[("", port)]), has_socket=has_socket)
    assert values(text, "AmbientCapabilities") == values(text, "CapabilityBoundingSet") == [capabilities]


@pytest.mark.parametrize(
    "host, stream",
    [
        ("", "9092"),
        ("::", "9092"),
        ("0.0.0.0", "0.0.0.0:9092"),
        ("192.0.2.1", "192.0.2.1:9092"),
        ("2001:db8::1", "[2001:db8::1]:9092"),
    ],
)
def test_a_socket_unit_has_the_addresses_of_the_listeners(host: str, stream: str) -> None:
    assert values(socket_unit(PLAIN._replace(addresses=[(host, 9092)])), "ListenStream") == [stream]


@pytest.mark.parametrize(
    "address, problem", [(("", 0), "port 0 is another one"), (("localhost", 9092), "'localhost' is a name")]
)
def test_an_address_that_no_unit_can_have_is_refused(address: tuple[str, int], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        socket_unit(PLAIN._replace(addresses=[address]))


@pytest.mark.parametrize(
    "word, quoted",
    [
        ("serve", "serve"),
        ("", '""'),
        ("a b", '"a b"'),
        ('a"b', '"a\\"b"'),
        ("a\\b", "a\\\\b"),
        ("%h$x", "%%h$$x"),
    ],
)
def test_words_are_quoted_as_systemd_reads_them(word: str, quoted: str) -> None:
    assert quote(word) == quoted
