from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from headgate.protocol.security.tls.tests.certificates import NOW, Authority, Issued
from headgate.tools.doctor.check_result import NOTE, OK, WRONG
from headgate.tools.doctor.connecting.chain import check_chain, check_end, read_peer

ROOT = Authority("Root CA")
ADDRESS = "b:9093"


def peer_chain(issued: Issued, folder: Path) -> Sequence[str]:
    """The subjects of the certificates that a real server sends."""
    key_store = folder / "server.pem"
    key_store.write_text(issued.pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(key_store)

    def serve() -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as secure:
            secure.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        peer = read_peer("127.0.0.1", listener.getsockname()[1], 10.0)
        thread.join(10)
    assert peer.own == issued.certificate
    assert peer.chain is not None
    return [one.subject.rfc4514_string() for one in peer.chain]


@pytest.mark.sockets
def test_all_certificates_that_a_server_sends_are_read(tmp_path: Path) -> None:
    middle = Authority("Middle CA", ROOT)
    assert peer_chain(middle.issue("broker"), tmp_path) == ["CN=broker", "CN=Middle CA"]


@pytest.mark.parametrize(
    "days, state, words", [(400, OK, "400 more days"), (12, NOTE, "in 12 days"), (0, WRONG, "expired")]
)
def test_days_of_an_intermediate(days: int, state: str, words: str) -> None:
    issued = Authority("Middle CA", ROOT, days=days).issue("broker")
    [row] = check_chain(ADDRESS, issued.chain, NOW)
    assert (row.check, row.state) == ("chain", state)
    assert "of CN=Middle CA, which b:9093 sends, signed by CN=Root CA" in row.found
    assert words in row.found
    assert bool(row.cure) == (state != OK)


def test_a_python_that_shows_no_chain_is_a_note() -> None:
    [row] = check_chain(ADDRESS, None, NOW)
    assert (row.state, "does not show" in row.found) == (NOTE, True)


def test_a_missing_intermediate_is_named() -> None:
    middle = Authority("Middle CA", ROOT)
    [leaf, _] = middle.issue("broker").chain
    row = check_end(ADDRESS, [leaf], [ROOT.certificate], is_verified=False)
    assert row is not None
    assert row.state == NOTE
    assert "sends no certificate of CN=Middle CA, which signed that of CN=broker" in row.found
    assert "an intermediate is missing" in row.found


def test_an_intermediate_that_only_this_client_has_is_named() -> None:
    middle = Authority("Middle CA", ROOT)
    [leaf, _] = middle.issue("broker").chain
    row = check_end(ADDRESS, [leaf], [middle.certificate], is_verified=True)
    assert row is not None
    assert "clients that trust the root alone cannot verify" in row.found


@pytest.mark.parametrize("is_verified", [True, False])
def test_a_chain_up_to_a_trusted_root_is_whole(is_verified: bool) -> None:
    middle = Authority("Middle CA", ROOT)
    for chain in (middle.issue("broker").chain, ROOT.issue("broker").chain):
        assert check_end(ADDRESS, chain, [ROOT.certificate], is_verified=is_verified) is None
    with_root = [*middle.issue("broker").chain, ROOT.certificate]
    assert check_end(ADDRESS, with_root, [], is_verified=is_verified) is None
    assert check_end(ADDRESS, [], [], is_verified=is_verified) is None


def test_a_chain_of_a_root_that_the_system_trusts_is_whole() -> None:
    assert check_end(ADDRESS, ROOT.issue("broker").chain, [], is_verified=True) is None
