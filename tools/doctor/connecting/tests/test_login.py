from __future__ import annotations

from typing import Any

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headgate.protocol.security.client_security import ClientSecurity
from headgate.protocol.security.sasl.client_login import ClientLogin
from headgate.tools.doctor.check_result import OK, WRONG
from headgate.tools.doctor.connecting.login import LoginOffer, ask_offer, check_offer, without_login
from headgate.tools.tests.fake_broker import fake_broker

SERVED = [
    ApiVersion(cls.api_key, cls.versions.first, cls.versions.last) for cls in (ApiVersionsRequest, SaslHandshakeRequest)
]


def with_login(mechanism: str, protocol: str = "SASL_PLAINTEXT") -> ClientSecurity:
    return ClientSecurity(protocol, login=ClientLogin(mechanism, lambda _host: iter(())))  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    "offered, security, state, words",
    [
        (None, ClientSecurity(), OK, "asks for no login"),
        (None, with_login("PLAIN"), WRONG, "this client wants one"),
        (["PLAIN"], ClientSecurity(), WRONG, "asks for a login by PLAIN, and this client has none"),
        (["GSSAPI", "PLAIN"], with_login("SCRAM-SHA-256"), WRONG, "offers GSSAPI, PLAIN, not SCRAM-SHA-256"),
        (["GSSAPI", "PLAIN"], with_login("PLAIN"), OK, "offers GSSAPI, PLAIN"),
        ([], with_login("PLAIN"), WRONG, "offers no mechanism"),
    ],
)
def test_offers(offered: list[str] | None, security: ClientSecurity, state: str, words: str) -> None:
    row = check_offer("b:9092", LoginOffer(offered), security)
    assert row.state == state
    assert words in row.found


def test_a_login_is_left_out_and_tls_stays() -> None:
    assert without_login(with_login("PLAIN")).protocol == "PLAINTEXT"
    assert without_login(with_login("PLAIN", "SASL_SSL")).protocol == "SSL"


@pytest.mark.sockets
@pytest.mark.parametrize(
    "served, code, offered",
    [
        (SERVED, ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["A", "B"]),
        (SERVED, ErrorCode.ILLEGAL_SASL_STATE, None),
        (SERVED[:1], ErrorCode.NONE, None),
    ],
)
def test_a_listener_is_asked_by_a_mechanism_of_no_one(
    served: list[ApiVersion], code: ErrorCode, offered: list[str] | None
) -> None:
    def answer(request: Any, _version: int) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(api_keys=served)
        assert request == SaslHandshakeRequest("HEADGATE-DOCTOR")
        return SaslHandshakeResponse(error_code=code, mechanisms=["B", "A"])

    with fake_broker(answer) as address:
        assert ask_offer(address, ClientSecurity(), 10.0).mechanisms == offered
