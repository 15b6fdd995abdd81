"""Requests about delegation tokens are answered as by Kafka 4.1, and by 3.9 with ZooKeeper; see `tokens_scenario`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api.context import Client
from headgate.gateway.config.broker import STANDARD_AUTHORIZER
from headgate.gateway.security.tokens.tests.tokens_scenario import ACLS, BY_TOKEN, NOBODY, SETTINGS, USERS, Scenario
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.schema import Message

pytestmark = pytest.mark.slow

# What Kafka 4.1 and 3.9 answer differently; ours are the answers of 4.1. The part of a question, and the reason
DIFFERENT_IN_39 = {
    "20 hours": "3.9 renews for longer than delegation.token.expiry.time.ms",
    "200 hours": "3.9 renews for longer than delegation.token.expiry.time.ms",
    "0 ms": "3.9 renews for no time, which ends the token",
    "an overflow": "the sum of times overflows in 3.9, which ends the token",
    "at the end": "the tokens that have ended so are still there",
    "expired, carol": "3.9 looks at the owner before the end of a token",
}


class OurBroker:
    """A broker without a network, and clients as logins leave them."""

    def __init__(self, directory: Path, *, is_enabled: bool = True) -> None:
        settings = {**SETTINGS, "authorizer.class.name": STANDARD_AUTHORIZER}
        settings["listeners"] = "PLAINTEXT://127.0.0.1:9092,SASL://127.0.0.1:9093"
        settings["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT"
        if not is_enabled:
            del settings["delegation.token.secret.key"]
        self.node = HandlerBroker(directory, **{name.replace(".", "_"): value for name, value in settings.items()})
        self.node.ask(ACLS, 3)
        self._clients = {user: client(f"User:{user}") for user in USERS}
        self._clients[BY_TOKEN] = client("User:alice", is_by_delegation_token=is_enabled)
        self._clients[NOBODY] = client("User:ANONYMOUS", "PLAINTEXT")

    def ask(self, who: str, request: Message, version: int) -> Any:
        self.node.client = self._clients[who]
        return self.node.ask(request, version)

    def now_ms(self) -> int:
        return self.node.time.clock.now_ms()

    def wait(self, wait_ms: int) -> None:
        self.node.time.advance(wait_ms)


def client(principal: str, listener: str = "SASL", *, is_by_delegation_token: bool = False) -> Client:
    made = Client("192.0.2.9", 50_000, "192.0.2.1", 9092, listener, principal)
    made.is_by_delegation_token = is_by_delegation_token
    return made


def recorded(name: str) -> dict[str, str]:
    lines = (Path(__file__).parent / name).read_text().splitlines()
    return dict(line.split("\t") for line in lines)


def answers(directory: Path, low: int, *, is_enabled: bool = True) -> dict[str, str]:
    broker = OurBroker(directory, is_enabled=is_enabled)
    try:
        return dict(Scenario(broker).play(low))
    finally:
        broker.node.close()


def differences(ours: dict[str, str], kafkas: dict[str, str]) -> dict[str, tuple[str, str]]:
    assert ours.keys() == kafkas.keys()
    return {name: (ours[name], line) for name, line in kafkas.items() if ours[name] != line}


def test_tokens_are_those_of_kafka_41(tmp_path: Path) -> None:
    assert differences(answers(tmp_path, 1), recorded("tokens_of_kafka41.txt")) == {}


def test_a_broker_without_a_key_answers_as_kafka_41(tmp_path: Path) -> None:
    ours = answers(tmp_path, 1, is_enabled=False)
    assert differences(ours, recorded("tokens_disabled_of_kafka41.txt")) == {}


@pytest.mark.parametrize("is_enabled", [True, False], ids=["with a key", "without a key"])
def test_tokens_are_those_of_kafka_39(tmp_path: Path, is_enabled: bool) -> None:
    name = "tokens_of_kafka39.txt" if is_enabled else "tokens_disabled_of_kafka39.txt"
    kafkas = recorded(name)
    found = differences(answers(tmp_path, 0, is_enabled=is_enabled), kafkas)
    left = {
        question: both
        for question, both in found.items()
        if not any(part in question for part in DIFFERENT_IN_39) and without_times(both[0]) != without_times(both[1])
    }
    assert left == {}


def without_times(line: str) -> str:
    """A refusal has the time -1 in 3.9, and 0 where the controller of 4.1 refuses."""
    return line if "error_code=NONE" in line else line.replace("_ms=-1", "_ms=0")
