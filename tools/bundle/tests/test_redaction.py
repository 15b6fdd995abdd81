"""Twenty kinds of secrets in the texts that a bundle may have: none is left. What is no secret stays."""

from __future__ import annotations

import base64
import json
from typing import Final

import pytest

from headgate.tools.bundle.redaction import HIDDEN, Redaction, is_secret_name

S: Final = "hunter2-XYZZY"
KEY: Final = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
PLANTED: Final = {
    "a password of a key store": f"ssl.keystore.password={S}",
    "a password with blanks": f"ssl.key.password = {S} and {S}",
    "a password of a trust store": f"ssl.truststore.password: {S}",
    "a line of JAAS": f'sasl.jaas.config=o.a.k.PlainLoginModule required username="a" password="{S}";',
    "users of a listener": f'PlainLoginModule required user_alice="{S}" user_bob={S};',
    "a line of JAAS in JSON": json.dumps({"line": f'required username="a" password="{S}";'}),
    "the keys of SCRAM": f"SCRAM-SHA-512=[salt={S},stored_key={S},server_key={S},iterations=4096]",
    "a key of delegation tokens": f"delegation.token.secret.key={S}",
    "the HMAC of a token": f"created token id=7 hmac={S}",
    "a URL with userinfo": f"registry at https://alice:{S}@registry.example/subjects",
    "a URL with a user's token alone": f"https://{S}@git.example/x",
    "a URL with a query": f"GET /callback?access_token={S}&state=1",
    "a bearer token": f"Authorization: Bearer {S}{S}",
    "basic authentication": f"> authorization: Basic {base64.b64encode(S.encode()).decode()}",
    "a signed token": f"login with eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.{S}",
    "a private key": f"-----BEGIN PRIVATE KEY-----\n{S}\n{KEY}\n-----END PRIVATE KEY-----",
    "a private key that is cut off": f"-----BEGIN EC PRIVATE KEY-----\n{S}\n{KEY}",
    "a password of JSON": json.dumps({"user": "alice", "password": S, "port": 9092}),
    "a password of YAML": f"  kafka_password: '{S}'",
    "an option of a command": f"kafka-configs --password {S} --client-secret={S}",
    "a variable of the environment": f"KAFKA_OPTS=-Dx CLIENT_SECRET={S} java",
    "a JDBC address": f"jdbc:mysql://db/x?user=a&password={S}",
    "a key of a cloud": "aws key AKIAIOSFODNN7EXAMPLE and ghp_0123456789abcdefghijABCDEFGHIJ",
    "a cookie": f"Set-Cookie: session={S}; HttpOnly",
    "an element of XML": f"<keyPassword>{S}</keyPassword>",
    "a passphrase": f"passphrase => {S}",
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_secret_that_nobody_named_is_hidden(kind: str) -> None:
    text = f"before\n2026-01-01 INFO {PLANTED[kind]}\nafter"
    shown = Redaction()(text)
    encoded = base64.b64encode(S.encode()).decode().rstrip("=")
    for secret in (S, KEY, encoded, "AKIAIOSFODNN7EXAMPLE", "ghp_0123456789"):
        assert secret not in shown, shown
    assert HIDDEN in shown
    assert shown.startswith("before\n2026-01-01 INFO ")


@pytest.mark.parametrize(
    "form",
    [
        S,
        f"... {S}...",
        "p%40ss%20word%2Fx",
        "p%40ss+word%2Fx",
        base64.b64encode(b"p@ss word/x").decode(),
        'p@ss \\"word',
        "the-second-user",
    ],
)
def test_a_known_secret_is_hidden_wherever_it_stands(form: str) -> None:
    jaas = 'required user_a="the-first-user" user_b="the-second-user";'
    redact = Redaction([S, "p@ss word/x", 'p@ss "word', jaas, "abc"])
    shown = redact(f"refused: {form} was wrong")
    assert form.strip(". ") not in shown
    assert shown.startswith("refused: ")
    assert redact("abc") == "abc", "a secret of three letters would hide half of the text"


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01 INFO headgate.server: connection from 127.0.0.1:40123 closed",
        "listeners=SASL_SSL://broker:9093,PLAINTEXT://127.0.0.1:9092",
        'headgate_partition_end_offset{topic="passwords",partition="0"} 17',
        '{"tokens": 3, "secret_count": 0, "has_password": true, "next": null}',
        "the login by PLAIN is refused; correct user and password in sasl.jaas.config",
        "__consumer_offsets-3/ 4096 uid=1000 mtime=1",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert Redaction([S])(text) == text


def test_json_stays_json() -> None:
    document = {"found": f"line 3: password={S}", "rows": [{"api_key": S, "port": 1, "x": [f"Bearer {S}"]}], "n": None}
    shown = json.loads(Redaction().json(json.dumps(document)))
    assert shown == {
        "found": f"line 3: password={HIDDEN}",
        "rows": [{"api_key": HIDDEN, "port": 1, "x": [f"Bearer {HIDDEN}"]}],
        "n": None,
    }
    assert Redaction().json(f"{{ no json, password={S}") == f"{{ no json, password={HIDDEN}"


def test_a_text_of_megabytes_takes_no_minutes() -> None:
    hostile = "=" * 20_000 + "\n" + "password" * 5_000 + "\n" + "a.b-" * 10_000 + "\n" + '"' * 20_000
    assert Redaction([S])(hostile)


def test_names_of_secrets() -> None:
    for name in ("sasl.jaas.config", "ssl.keystore.key", "ssl.key.password", "client.secret", "delegation.token.x"):
        assert is_secret_name(name)
    assert not is_secret_name("ssl.keystore.location")
