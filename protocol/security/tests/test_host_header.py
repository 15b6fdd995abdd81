"""Which hosts a program of this machine names."""

import pytest

from headgate.protocol.security.host_header import is_of_this_machine


@pytest.mark.parametrize(
    "host, is_local",
    [
        (None, True),
        (b"127.0.0.1:9644", True),
        (b"127.0.0.1", True),
        (b"[::1]:9644", True),
        (b"localhost", True),
        (b"LocalHost:9644", True),
        (b"broker.localhost:1", True),
        (b"evil.example", False),
        (b"evil.example:9644", False),
        (b"127.0.0.1.evil.example", False),
        (b"evillocalhost", False),
        (b"", False),
        (b"[evil]", False),
        (b"\xff", False),
    ],
)
def test_a_page_of_another_site_has_another_name(host: bytes | None, is_local: bool) -> None:
    assert is_of_this_machine(host) == is_local
