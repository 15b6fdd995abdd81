"""Answers about connections: few of them serve many visitors."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.tools.console.connection_sampler import INTERVAL_S, ConnectionSampler


def document(measured_ms: int) -> dict[str, Any]:
    return {"measured_ms": measured_ms}


def test_a_broker_is_asked_once_in_an_interval() -> None:
    now_s, asked = [100.0], list[str]()

    def read(address: str) -> dict[str, Any]:
        asked.append(address)
        return document(len(asked))

    sampler = ConnectionSampler(read, clock=lambda: now_s[0])
    first = sampler.sample("a")
    assert first.before is None
    assert sampler.sample("a") is first
    sampler.sample("b")
    now_s[0] += INTERVAL_S
    second = sampler.sample("a")
    assert (second.before, second.document["measured_ms"]) == (first.document, 3)
    assert asked == ["a", "b", "a"]


def test_a_failed_question_is_not_remembered() -> None:
    answers: list[Any] = [OSError("refused"), document(2)]

    def read(_: str) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    sampler = ConnectionSampler(read, clock=lambda: 0.0)
    with pytest.raises(OSError, match="refused"):
        sampler.sample("a")
    assert sampler.sample("a").before is None
