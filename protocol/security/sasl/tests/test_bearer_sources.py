"""Sources of bearer tokens: the JAAS line, a file, a server, and unsecured claims."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from headgate.protocol.security.sasl.bearer_sources import (
    MAX_TOKEN_LENGTH,
    InvalidSource,
    TokenRequest,
    TokenSourceParts,
    source_of,
)
from headgate.protocol.security.sasl.client_tokens import LoginFailed

URL = "sasl.oauthbearer.token.endpoint.url"
HTTPS = {
    URL: "https://server/token",
    "sasl.oauthbearer.client.credentials.client.id": "me",
    "sasl.oauthbearer.client.credentials.client.secret": "a secret",
}


class System:
    """A system of one file and one server."""

    def __init__(self, content: bytes = b"", answer: bytes = b"") -> None:
        self.content, self.answer, self.time_ms = content, answer, 1_000_000
        self.asked: list[TokenRequest] = []

    def read(self, path: str) -> bytes:
        if path != "/a token":
            raise FileNotFoundError(2, "No such file or directory")
        return self.content

    def post(self, request: TokenRequest) -> bytes:
        self.asked.append(request)
        return self.answer

    def parts(self) -> TokenSourceParts:
        return TokenSourceParts(self.read, self.post, lambda: self.time_ms)


def test_a_token_of_the_jaas_line_is_taken() -> None:
    source = source_of({"token": "abc.def."}, {}, System().parts())
    assert source().text == "abc.def."
    with pytest.raises(LoginFailed, match=r"the option token of sasl\.jaas\.config is no bearer token") as refused:
        source_of({"token": "not a token"}, {}, System().parts())()
    assert "not a" not in str(refused.value)


def test_a_file_is_read_at_each_login() -> None:
    system = System(b"one\n")
    source = source_of({}, {URL: "file:///a%20token"}, system.parts())
    assert source().text == "one"
    system.content = b"two"
    assert source().text == "two"
    system.content = b"x" * (MAX_TOKEN_LENGTH + 1)
    with pytest.raises(LoginFailed, match="the content of /a token is no bearer token"):
        source()
    with pytest.raises(LoginFailed, match="/none cannot be read: No such file"):
        source_of({}, {URL: "file:///none"}, system.parts())()


def test_a_token_of_a_server_is_kept_for_most_of_its_life() -> None:
    system = System(answer=b'{"access_token": "one", "expires_in": 100}')
    source = source_of({"scope": "a b"}, HTTPS, system.parts())
    assert [source().text, source().text] == ["one", "one"]
    (asked,) = system.asked
    assert asked.form == b"grant_type=client_credentials&scope=a%20b"
    assert asked.authorization == "Basic " + base64.b64encode(b"me:a secret").decode()
    assert repr(asked) == "TokenRequest(https://server/token)"
    system.time_ms += 80_000
    system.answer = b'{"access_token": "two"}'
    assert source().text == "two"


def test_credentials_of_the_jaas_line_are_those_of_older_kafkas() -> None:
    system = System(answer=b'{"access_token": "one"}')
    options = {"clientId": "m:e", "clientSecret": "s"}
    settings = {URL: HTTPS[URL], "sasl.oauthbearer.header.urlencode": "true"}
    source_of(options, settings, system.parts())()
    assert system.asked[0].authorization == "Basic " + base64.b64encode(b"m%3Ae:s").decode()


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"access_token": 5}', b"[" * 100_000, b"\xff"])
def test_an_answer_without_a_token_is_refused(answer: bytes) -> None:
    with pytest.raises(LoginFailed, match="https://server/token does not answer with a token"):
        source_of({}, HTTPS, System(answer=answer).parts())()


def claims_of(token: str) -> Any:
    head, body, signature = token.split(".")
    assert (json.loads(base64.b64decode(head + "==")), signature) == ({"alg": "none"}, "")
    return json.loads(base64.b64decode(body + "=="))


def test_unsecured_claims_become_a_token() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginNumberClaim_level": "5",
        "unsecuredLoginListClaim_scope": "|a|b",
        "unsecuredLoginLifetimeSeconds": "60",
    }
    token = source_of(options, {}, System().parts())()
    assert claims_of(token.text) == {"sub": "alice", "level": 5, "scope": ["a", "b"], "iat": 1000, "exp": 1060}


@pytest.mark.parametrize(
    "options, settings, sentence",
    [
        ({}, {}, "OAUTHBEARER has no token; set one of"),
        ({"token": "a"}, {URL: "file:///x"}, "OAUTHBEARER has token and sasl.oauthbearer.token.endpoint.url"),
        ({}, {URL: "http://x"}, "write https://... or file:///..."),
        ({}, {URL: "https://x"}, "client.credentials.client.id and .*secret; set both"),
        ({"unsecuredLoginStringClaim_other": "x"}, {}, 'has no unsecuredLoginStringClaim_sub="NAME"'),
        (
            {"unsecuredLoginStringClaim_sub": "x", "unsecuredLoginNumberClaim_n": "y"},
            {},
            "the option unsecuredLoginNumberClaim_n of sasl.jaas.config is no number",
        ),
        (
            {"unsecuredLoginStringClaim_sub": "x", "unsecuredLoginLifetimeSeconds": "-1"},
            {},
            "the option unsecuredLoginLifetimeSeconds of sasl.jaas.config is no whole number",
        ),
    ],
)
def test_settings_without_one_source_are_refused(
    options: dict[str, str], settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(InvalidSource, match=sentence):
        source_of(options, settings, System().parts())
