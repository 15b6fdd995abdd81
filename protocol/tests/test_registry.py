"""The table of APIs. That it agrees with every declaration is in test_messages.py."""

from __future__ import annotations

import pytest

from headgate.protocol.messages.fetch import FetchRequest, FetchResponse
from headgate.protocol.registry import header_versions, response_class
from headgate.protocol.tests.declared import request_class


def test_a_key_gives_its_messages() -> None:
    assert request_class(1) is FetchRequest
    assert response_class(1) is FetchResponse


@pytest.mark.parametrize("key", [-1, 999])
def test_an_unknown_key_is_a_key_error(key: int) -> None:
    with pytest.raises(KeyError):
        request_class(key)
    with pytest.raises(KeyError):
        response_class(key)


@pytest.mark.parametrize(
    "key, version, expected",
    [
        (1, 11, (1, 0)),
        (1, 12, (2, 1)),
        (1, 99, (2, 1)),
        (17, 1, (1, 0)),  # SaslHandshake never became flexible
        (18, 2, (1, 0)),
        (18, 3, (2, 0)),  # ApiVersions answers with header 0 for ever
        (7, 0, (0, 0)),  # ControlledShutdown began without a client id
        (7, 1, (1, 0)),
        (999, 5, (1, 0)),
    ],
)
def test_key_and_version_tell_the_header_versions(key: int, version: int, expected: tuple[int, int]) -> None:
    assert header_versions(key, version) == expected
