"""Members of consumer groups (KIP-848): what their expressions match, and who may see their topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.gateway.api.tests.under_acls.acl_sets import ADMIN, acl_sets
from headgate.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.protocol.schema import Message

GROUP, MEMBER, EXPRESSION = "k", "member", "[tu]|doomed|stays"
TRIES = 12
"""Kafka resolves an expression after the answer to the member that brings it."""

Ask = Callable[[str, Message, int], Any]
"""Asks for a client, and returns the response; None for an API that is not served."""


def topics_of_expressions(ask: Ask, wait: Callable[[], None], names: dict[bytes, str]) -> dict[str, str] | None:
    """By client: the topics that a member gets which subscribes by an expression; None if there are no expressions."""
    answers: dict[str, str] = {}
    for client in acl_sets():
        response = ask(client, _join(EXPRESSION), 1)
        if response is None:
            return None
        if response.error_code:
            answers[client] = f"error {response.error_code}"
            continue
        answers[client] = " ".join(_assigned(ask, wait, client, response, names)) or "nothing"
        ask(client, ConsumerGroupHeartbeatRequest(GROUP, MEMBER, -1), 1)
    return answers


def described_members(ask: Ask, wait: Callable[[], None], names: dict[bytes, str]) -> dict[str, Message] | None:
    """By client: the description of a group whose member has partitions of t and u."""
    response = ask(ADMIN, _join(None, ["t", "u"]), 1)
    if response is None:
        return None
    _assigned(ask, wait, ADMIN, response, names)
    described = {client: ask(client, ConsumerGroupDescribeRequest([GROUP], True), 1) for client in acl_sets()}
    ask(ADMIN, ConsumerGroupHeartbeatRequest(GROUP, MEMBER, -1), 1)
    return described


def _join(expression: str | None, topics: list[str] | None = None) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        GROUP,
        MEMBER,
        0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=topics,
        subscribed_topic_regex=expression,
        topic_partitions=[],
    )


def _assigned(ask: Ask, wait: Callable[[], None], client: str, response: Any, names: dict[bytes, str]) -> list[str]:
    """The topics of the first assignment with any, after some heartbeats."""
    for _ in range(TRIES):
        assignment = response.assignment
        if assignment is not None and assignment.topic_partitions:
            return sorted(names[row.topic_id] for row in assignment.topic_partitions)
        wait()
        response = ask(client, ConsumerGroupHeartbeatRequest(GROUP, MEMBER, response.member_epoch), 1)
        assert not response.error_code, response
    return []
