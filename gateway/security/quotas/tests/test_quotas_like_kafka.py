"""Each use of a quota has the throttle time that Kafka 4.1.2 gave (`quota_scenario` has the uses)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headgate.gateway.security.quotas.quota_manager import ClientLimits, MutationQuota, QuotaManager
from headgate.gateway.security.quotas.rates import SampledRate, Windows
from headgate.gateway.security.quotas.tests.quota_scenario import lines
from headgate.protocol.errors import KafkaError
from headgate.protocol.security.quotas import (
    CLIENT_ID,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)

_RECORDED = (Path(__file__).parent / "quotas_of_kafka.txt").read_text().splitlines()
_KEYS = {"produce": PRODUCER_BYTE_RATE, "request": REQUEST_PERCENTAGE, "mutation": CONTROLLER_MUTATION_RATE}
_UNLIMITED = {1.7976931348623157e308, *(2.0**63 * factor for factor in (1, 10))}


class Replay:
    """A quota manager that follows the lines of a scenario."""

    def __init__(self, kind: str, number: str, seconds: str) -> None:
        windows = Windows(int(number), int(seconds) * 1_000)
        self.key = _KEYS[kind]
        self.manager = QuotaManager(windows, windows)
        self.now_ms = 0

    def limits(self, user: str, client: str) -> ClientLimits:
        return self.manager.limits(f"User:{user}", client, self.now_ms)

    def rate(self, user: str, client: str) -> SampledRate | None:
        limits = self.limits(user, client)
        return limits.request if self.key == REQUEST_PERCENTAGE else limits.produce

    def set(self, user: str, client: str, bound: str) -> str:
        names = {
            kind: None if name == "*" else name for kind, name in ((USER, user), (CLIENT_ID, client)) if name != "-"
        }
        quotas = {entity: values for entity, values in self.manager.quotas.items() if entity != QuotaEntity.of(names)}
        self.manager.change(quotas if bound == "-" else {**quotas, QuotaEntity.of(names): {self.key: float(bound)}})
        return ""

    def use(self, user: str, client: str, value: str, now: str) -> str:
        self.now_ms = int(now)
        rate = self.rate(user, client)
        throttle_ms = 0 if rate is None else rate.record(float(value), self.now_ms)
        if self.key == REQUEST_PERCENTAGE:
            throttle_ms = min(throttle_ms, self.manager.windows.size_ms)
        return str(throttle_ms)

    def back(self, user: str, client: str, value: str, now: str) -> str:
        self.now_ms = int(now)
        rate = self.rate(user, client)
        if rate is not None:
            rate.take_back(float(value), self.now_ms)
        return ""

    def most(self, user: str, client: str) -> str:
        rate = self.rate(user, client)
        return "unlimited" if rate is None else str(rate.most)

    def strict(self, *words: str) -> str:
        return self._mutated(*words, is_strict=True)

    def permissive(self, *words: str) -> str:
        return self._mutated(*words, is_strict=False)

    def _mutated(self, user: str, client: str, count: str, now: str, *, is_strict: bool) -> str:
        self.now_ms = int(now)
        bucket = self.limits(user, client).mutations
        if bucket is None:
            return "0"
        quota = MutationQuota(bucket, lambda: self.now_ms, is_strict=is_strict)
        try:
            quota.charge(int(count))
        except KafkaError as error:
            return f"{quota.throttle_ms()} refused: {error.message}"
        return str(quota.throttle_ms())


def replay() -> Iterator[tuple[str, str]]:
    follower = Replay("produce", "1", "1")
    for line in lines():
        operation, *words = line.split("\t")
        if operation == "new":
            follower = Replay(*words)
            yield line, ""
        else:
            answer: Callable[..., str] = getattr(follower, operation)
            yield line, answer(*words)


def of_kafka(line: str, answer: str) -> str:
    """Kafka's answer in our words: a bound of the largest long is no bound."""
    return "unlimited" if line.startswith("most") and float(answer) in _UNLIMITED else answer


@pytest.mark.slow
def test_every_use_has_kafkas_throttle_time() -> None:
    recorded = [tuple(line.rsplit("\t", 1)) for line in _RECORDED]
    expected = [(line, of_kafka(line, answer)) for line, answer in recorded]
    assert list(replay()) == expected
