"""The addresses of the HTTP listeners."""

from __future__ import annotations

import pytest

from headgate.gateway.config.http.http_addresses import HttpAddress, parse, parse_console, parse_old
from headgate.gateway.config.listeners import ListenerProblem


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", ()),
        (" , ", ()),
        ("http://127.0.0.1:9644", (HttpAddress("http", "127.0.0.1", 9644),)),
        ("HTTP://localhost:0/", (HttpAddress("http", "localhost", 0),)),
        ("http://[::1]:9644", (HttpAddress("http", "::1", 9644),)),
        ("https://:9644", (HttpAddress("https", "", 9644),)),
        ("https://127.0.0.1:1", (HttpAddress("https", "127.0.0.1", 1),)),
        (
            "http://127.0.0.1:9644, https://[::]:9645",
            (HttpAddress("http", "127.0.0.1", 9644), HttpAddress("https", "::", 9645)),
        ),
    ],
)
def test_a_list_of_addresses(text: str, expected: tuple[HttpAddress, ...]) -> None:
    addresses = parse(text)
    assert addresses == expected
    assert parse(",".join(map(str, addresses))) == addresses
    assert [address.has_tls for address in addresses] == [address.scheme == "https" for address in expected]


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("9644", "'9644' is not http://host:port or https://host:port, as in http://127.0.0.1:9644"),
        ("127.0.0.1:9644", "is not http://host:port"),
        ("http://127.0.0.1", "is not http://host:port"),
        ("http://127.0.0.1:65536", "is not http://host:port"),
        ("http://127.0.0.1:9644/metrics", "is not http://host:port"),
        ("PLAINTEXT://127.0.0.1:9644", "is not http://host:port"),
        ("http://0.0.0.0:9644", "is reached from other machines, so it needs TLS and users: write https://"),
        ("http://:9644", "is reached from other machines"),
        ("http://broker.example:9644", "is reached from other machines"),
        ("http://[::]:9644", "is reached from other machines"),
        ("http://127.0.0.1:1,http://127.0.0.1:1", "127.0.0.1:1 is listed twice"),
        (",".join(f"http://127.0.0.1:{port}" for port in range(1, 18)), "there are 17 addresses; the most are 16"),
    ],
)
def test_what_is_no_list_is_shown_one(text: str, sentence: str) -> None:
    with pytest.raises(ListenerProblem) as refused:
        parse(text)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", ()),
        ("9404", (HttpAddress("http", "127.0.0.1", 9404),)),
        (":9404", (HttpAddress("http", "127.0.0.1", 9404),)),
        ("[::1]:9404", (HttpAddress("http", "::1", 9404),)),
        ("0.0.0.0:9404", (HttpAddress("https", "0.0.0.0", 9404),)),
        ("[::]:9404", (HttpAddress("https", "::", 9404),)),
        ("broker.example:9404", (HttpAddress("https", "broker.example", 9404),)),
    ],
)
def test_the_older_setting_has_tls_beyond_loopback(text: str, expected: tuple[HttpAddress, ...]) -> None:
    assert parse_old(text) == expected


def test_the_console_is_held_on_the_loopback_interface_alone() -> None:
    assert [str(address) for address in parse_console("http://127.0.0.1:9080,http://[::1]:0")] == [
        "http://127.0.0.1:9080",
        "http://[::1]:0",
    ]
    assert parse_console("") == ()
    for text in ("https://127.0.0.1:9080", "https://0.0.0.0:9080"):
        with pytest.raises(ListenerProblem, match="is no address that a broker holds for its console"):
            parse_console(text)
    with pytest.raises(ListenerProblem, match="needs TLS"):
        parse_console("http://0.0.0.0:9080")
