"""A connection gets Kafka's answers to everything that `sasl_scenario` sends; `DIFFERENCES` are on purpose.

`sasl_of_kafka.txt` has the answers of Kafka 4.1.2, `sasl_of_kafka39.txt` those that Kafka 3.9.1 gives instead: clients
of Kafka 0.9 send a GSSAPI token first, which 3.9 still reads.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.gateway.security.sasl.tests import sasl_scenario as scenario
from headgate.gateway.security.sasl.tests.exchanges import NOW_S, Connected, FakeClock, listener

_DIRECTORY = Path(__file__).parent


def answers_of(file: str) -> dict[str, str]:
    lines = (_DIRECTORY / file).read_text().splitlines()
    return dict(line.split("\t") for line in lines)


KAFKAS = answers_of("sasl_of_kafka.txt")
_INVALID = (
    "SaslAuthenticate 58 Authentication failed during authentication due to invalid credentials with SASL mechanism "
)
_CHALLENGE = "SaslAuthenticate 0  'r=NONCE,s=SALT,i=4096'"
DIFFERENCES = {
    # No other request than ApiVersions and SASL's is parsed: it gets no reply
    "a token due, Metadata: 1": "nothing, then the end, late",
    "renewal, then Metadata: 2": "nothing, then the end, late",
    # An unknown user is answered as a wrong password
    "SCRAM, unknown user: 1": _CHALLENGE,
    "SCRAM, unknown user: 2": f"{_INVALID}SCRAM-SHA-256 '', then the end, late",
    "SCRAM, unknown token: 1": _CHALLENGE,
    "SCRAM, unknown token: 2": f"{_INVALID}SCRAM-SHA-256 '', then the end, late",
    # As Kafka 3.9.1
    "SCRAM, a doubled nonce: 2": "SaslAuthenticate 0  'v=SIGNATURE'",
    # The client learns the reason, which Kafka loses by an exception of another type
    "SCRAM, a short proof: 2": f"{_INVALID}SCRAM-SHA-256 '', then the end, late",
    "SCRAM, no proof: 2": f"{_INVALID}SCRAM-SHA-256 '', then the end, late",
    "bearer, another scheme: 1": f"{_INVALID}OAUTHBEARER '', then the end, late",
    "renewed by an unknown mechanism: 1": (
        "SaslHandshake 33 OAUTHBEARER PLAIN SCRAM-SHA-256 SCRAM-SHA-512, then the end, late"
    ),
}
_ONLY_HERE = {"SCRAM, unknown user: 2", "SCRAM, unknown token: 2"}


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    def connect(name: str) -> Connected:
        clock = FakeClock()
        return Connected(listener(clock, name), clock)

    return scenario.play(connect, NOW_S)


def test_everything_was_asked(answers: dict[str, str]) -> None:
    assert [name for name in answers if name not in _ONLY_HERE] == list(KAFKAS)


def test_the_answers_are_kafkas(answers: dict[str, str]) -> None:
    assert answers == {**KAFKAS, **DIFFERENCES}


def test_each_difference_is_one() -> None:
    assert not [name for name, text in DIFFERENCES.items() if KAFKAS.get(name) == text]


def test_kafka_39_differs_only_in_time_and_nonce() -> None:
    for name, text in answers_of("sasl_of_kafka39.txt").items():
        assert text in {f"{KAFKAS[name]}, late", DIFFERENCES.get(name)}, name
